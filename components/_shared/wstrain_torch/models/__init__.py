"""Models by name: the built-in ones, whose loss is the same at any world size, and the user's own."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from wstrain.user_code import unknown_model_error
from wstrain_torch.data.task import Task
from wstrain_torch.models import batch_norm, cnn, gpt, mlp, user
from wstrain_torch.models.layers import ModelOptions, Standardised

__all__ = ["BUILT_IN", "ModelOptions", "build_model"]

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
        task: what goes in and out.
        options: sizes of the built-in models.
        sample: training rows from which classifiers take their input scale; None for a language model.
        sync_batch_norm: take batch-normalisation statistics over all ranks.

    Raises:
        UserError: there is no such model, it does not fit the shards, or the user's function fails.
    """
    if user.is_reference(name):
        model = user.build_model(name, task)
    elif name in BUILT_IN:
        model = BUILT_IN[name](task, options)
        if sample is not None:
            model = Standardised(model, sample)
    else:
        raise unknown_model_error(name, BUILT_IN)
    if batch_norm.has_batch_norm(model):
        if sync_batch_norm:
            model = batch_norm.synchronise_batch_norm(model)
        else:
            batch_norm.warn_of_batch_norm()
    return model
