"""Models by name: the built-in ones, whose loss is the same at any world size, and the user's own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from wsshards.errors import UserError
from wstrain import user_code
from wstrain_torch.data import Task
from wstrain_torch.models import batch_norm, cnn, gpt, mlp
from wstrain_torch.models.layers import ModelOptions, Standardised

BUILT_IN: dict[str, Callable[[Task, ModelOptions], nn.Module]] = {
    "mlp": mlp.build_model,
    "cnn": cnn.build_model,
    "gpt": gpt.build_model,
}


def build_model(
    name: str, task: Task, options: ModelOptions, *, sample: Tensor | None, sync_batch_norm: bool = False
) -> nn.Module:
    """Return the model called ``name``.

    Args:
        name: a built-in model, or ``path/to/file.py:function``.
        task: the model's inputs and outputs.
        options: sizes of the built-in models.
        sample: training rows as the model gets them, for its input scale; None for tokens.
        sync_batch_norm: take batch-normalisation statistics over all ranks.

    Raises:
        UserError: there is no such model, it does not fit the shards, or the user's function fails.
    """
    if user_code.is_reference(name):
        model = _build_user_model(name, task)
    elif name in BUILT_IN:
        if task.reads_tokens and name != "gpt":
            raise UserError(f"model `{name}` takes numbers, and the shards hold tokens of text", "use `gpt`")
        model = BUILT_IN[name](task, options)
        if sample is not None:
            model = Standardised(model, sample, task.encoding.scaled if task.encoding else ())
    else:
        raise user_code.unknown_model_error(name, BUILT_IN)
    if batch_norm.has_batch_norm(model):
        if sync_batch_norm:
            model = batch_norm.synchronise_batch_norm(model)
        else:
            batch_norm.warn_of_batch_norm()
    return model


def _build_user_model(reference: str, task: Task) -> nn.Module:
    model = user_code.call_for_model(user_code.load_function(reference), task, reference)
    if not isinstance(model, nn.Module):
        raise UserError(f"`{reference}` returned `{type(model).__name__}`, not a torch.nn.Module")
    # Fails now rather than in the first step. Evaluation mode does not change running statistics.
    training = model.training
    try:
        with torch.no_grad():
            user_code.expect_outputs(lambda: model.eval()(task.example(2)), task, reference)
    finally:
        model.train(training)
    return model
