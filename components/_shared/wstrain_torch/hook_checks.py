"""Calls the user's hooks once on a few training rows, so that they fail now rather than in the first step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wsshards.errors import UserError
from wstrain.data.sampler import GlobalBatchSampler
from wstrain.hooks import Hooks, warn_unless_mean
from wstrain_torch.data import Reader, Task

ROWS = 4  # two halves of two: the loss of one row may be undefined


def expect_hooks(
    task: Task, hooks: Hooks, model: nn.Module, reader: Reader, sampler: GlobalBatchSampler
) -> None:
    """Check what ``prepare`` and ``loss`` return, and warn of a loss that is not a mean over samples.

    Args:
        task: with the hooks.
        hooks: the user's functions.
        model: on the CPU; its state is not changed.
        reader: the training rows.
        sampler: gives the rows to try.

    Raises:
        UserError: a hook fails, or returns something else.
    """
    generator = torch.Generator().manual_seed(0)
    rows = reader.gather(sampler.some_rows(ROWS))
    if hooks.prepare is not None:
        for of_training in (generator, None):
            _expect_inputs(hooks, task.prepare(*rows, of_training)[0], len(rows[0]))
    if hooks.loss is None:
        return
    training = model.training
    with torch.no_grad():
        inputs, targets = task.prepare(*rows, generator)
        outputs = model.eval()(inputs)
        loss = task.loss(outputs, targets)
        model.train(training)
        _expect_number(hooks, loss)
        half = len(outputs) // 2
        if half and len(outputs) == 2 * half:
            parts = (task.loss(outputs[:half], targets[:half]), task.loss(outputs[half:], targets[half:]))
            warn_unless_mean(hooks, len(outputs), loss.item(), (parts[0].item(), parts[1].item()))


def _expect_inputs(hooks: Hooks, inputs: object, rows: int) -> None:
    if not isinstance(inputs, Tensor):
        raise UserError(f"`prepare` in `{hooks.file}` returned `{type(inputs).__name__}`, not a tensor")
    if inputs.ndim == 0 or len(inputs) != rows:
        raise UserError(
            f"`prepare` in `{hooks.file}` returned {list(inputs.shape)} for {rows} samples",
            "its first dimension must be that of the samples",
        )


def _expect_number(hooks: Hooks, loss: object) -> None:
    returned = list(loss.shape) if isinstance(loss, Tensor) else f"`{type(loss).__name__}`"
    if not isinstance(loss, Tensor) or loss.ndim or not loss.is_floating_point():
        raise UserError(
            f"`loss` in `{hooks.file}` returned {returned}, not the mean loss as a tensor without dimensions",
            "end it with `.mean()`" if isinstance(loss, Tensor) else None,
        )
