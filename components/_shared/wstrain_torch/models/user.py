"""A user's model: ``path/to/file.py:function``."""

from __future__ import annotations

import torch
from torch import nn

from wsshards.errors import UserError
from wstrain import user_code
from wstrain.user_code import is_reference
from wstrain_torch.data.task import Task

__all__ = ["build_model", "is_reference"]


def build_model(reference: str, task: Task) -> nn.Module:
    """Call the user's function and check what it gives.

    Raises:
        UserError: no such file or function, it raises, it returns something else than a module, or the module
            does not map the task's samples to ``[n, classes]`` (``[n, tokens, 256]`` for a language model).
    """
    model = user_code.call_for_model(user_code.load_function(reference), task, reference)
    if not isinstance(model, nn.Module):
        raise UserError(f"`{reference}` returned `{type(model).__name__}`, not a torch.nn.Module")
    # Fails now rather than in the first step of every rank. Evaluation mode leaves running statistics alone.
    training = model.training
    try:
        with torch.no_grad():
            user_code.expect_outputs(lambda: model.eval()(task.example(2)), task, reference)
    finally:
        model.train(training)
    return model
