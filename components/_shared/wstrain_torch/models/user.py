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

    The function gets by name those of ``input_shape`` (tuple, without the batch), ``classes`` (int; 256 for
    bytes) and ``task`` (text) that it declares; one with no parameters gets nothing.

    Raises:
        UserError: no such file or function, it raises, it returns something else than a module, or the module
            does not map the task's samples to ``[n, classes]`` (``[n, tokens, 256]`` for a language model).
    """
    offered = {"input_shape": task.input_shape, "classes": task.outputs, "task": task.name}
    model = user_code.call_function(user_code.load_function(reference), offered, reference)
    if not isinstance(model, nn.Module):
        raise UserError(f"`{reference}` returned `{type(model).__name__}`, not a torch.nn.Module")
    _probe(model, reference, task)
    return model


def _probe(model: nn.Module, reference: str, task: Task) -> None:
    # Fails now rather than in the first step of every rank. Evaluation mode leaves running statistics alone.
    training = model.training
    try:
        with torch.no_grad():
            output = model.eval()(task.example(2))
    except Exception as error:
        shape = [2, *task.input_shape]
        raise UserError(
            f"`{reference}`: the model fails on samples {shape}: {user_code.summarize_error(error)}",
            user_code.locate_error(error),
        ) from error
    finally:
        model.train(training)
    tokens = task.input_shape if task.name == "language_model" else ()
    expected = [2, *tokens, task.outputs]
    returned = list(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
    if returned != expected:
        raise UserError(
            f"`{reference}`: the model returns {returned} for 2 samples, the task needs {expected}"
        )
