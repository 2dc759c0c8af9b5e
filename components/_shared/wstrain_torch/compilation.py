"""``torch.compile`` for the model, and one sentence where it does not work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn

from wsshards.errors import UserError, describe_error
from wstrain.plan_inputs import COMPILE_PAYS_SECONDS, COMPILED
from wstrain.settings import Settings
from wstrain_torch import models

Loss = Callable[[Tensor, Tensor], Tensor]

GRAPH_WEIGHTS = 10_000_000  # a smaller model spends more time on launching kernels than on computing
_COMPILERS = ("g++", "clang++", "c++")
_HELP = "set `compile` to false"


def choose_compile(settings: Settings, total_steps: int, device: torch.device) -> bool:
    """Whether to compile: as the input says, else where the built-in models are known to gain by it.

    That is on a GPU, in a training whose planned time is more than compiling takes to pay.
    """
    if settings.compile is not None:
        return settings.compile
    speed = settings.predicted_samples_per_second
    if speed is None or device.type != "cuda" or settings.model not in models.BUILT_IN:
        return False
    seconds = total_steps * settings.global_batch_size / speed
    if seconds < COMPILE_PAYS_SECONDS or settings.strategy not in COMPILED:
        return False
    try:
        expect_compiler(device)
    except UserError:
        return False
    return True


def compile_model(model: nn.Module, device: torch.device, *, graphs: bool = False) -> nn.Module:
    """Return a module that computes as ``model`` with generated kernels, and shares its weights.

    Args:
        model: on the device.
        device: a CPU or a GPU.
        graphs: on a GPU, let a small model's kernels be launched at once, as CUDA graphs. Gradients then lie
            in memory that the next pass takes, so nothing may be added to them, and no one else may hold
            them.

    Raises:
        UserError: there is no compiler for them.
    """
    expect_compiler(device)
    small = sum(parameter.numel() for parameter in model.parameters()) < GRAPH_WEIGHTS
    mode = "reduce-overhead" if graphs and small and device.type == "cuda" else None
    # All micro-batches have one shape, so none is compiled for any other.
    return cast("nn.Module", torch.compile(model, dynamic=False, mode=mode))


def compile_loss(loss: Loss) -> Loss:
    """Return what computes a task's loss in fewer passes over the scores, which are most of the memory."""
    return cast("Loss", torch.compile(loss, dynamic=False))


def compile_blocks(blocks: list[nn.Module], device: torch.device) -> None:
    """Let each block compute with generated kernels, in place; names and weights stay.

    Raises:
        UserError: as :func:`compile_model`.
    """
    expect_compiler(device)
    for block in blocks:
        block.compile(dynamic=False)


def expect_compiler(device: torch.device) -> None:
    """Check for what ``torch.compile`` needs: a C++ compiler, on a GPU a C compiler and Triton.

    Raises:
        UserError: it is missing.
    """
    own = os.environ.get("CXX" if device.type == "cpu" else "CC")
    names = (own,) if own else _COMPILERS if device.type == "cpu" else ("gcc", "clang", "cc")
    if not any(shutil.which(name) for name in names):
        language = "C++" if device.type == "cpu" else "C"
        raise UserError(
            f"`compile` needs a {language} compiler, and there is none: {', '.join(f'`{n}`' for n in names)}",
            f"install `{names[0]}` in the environment, or {_HELP}",
        )
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (7, 0):
        raise UserError("`compile` needs a GPU of compute capability 7.0, as Triton does", _HELP)


@contextmanager
def report_compile_errors() -> Iterator[None]:
    """Report a model that cannot be compiled, which the first forward or backward pass shows.

    Raises:
        UserError: torch cannot compile it.
    """
    from torch._dynamo.exc import TorchDynamoException  # importing it takes a second

    try:
        yield
    except TorchDynamoException as error:
        raise UserError(f"`compile` failed: {describe_error(error, 140)}", _HELP) from error
