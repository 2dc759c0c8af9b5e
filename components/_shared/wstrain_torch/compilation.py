"""``torch.compile`` for the model, and one sentence where it does not work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import nn

from wsshards.errors import UserError, describe_error

_COMPILERS = ("g++", "clang++", "c++")
_HELP = "set `compile` to false"


def compile_model(model: nn.Module, device: torch.device) -> nn.Module:
    """Return a module that computes as ``model`` with generated kernels, and shares its weights.

    Raises:
        UserError: there is no compiler for them.
    """
    expect_compiler(device)
    return cast("nn.Module", torch.compile(model))


def compile_blocks(blocks: list[nn.Module], device: torch.device) -> None:
    """Let each block compute with generated kernels, in place; names and weights stay.

    Raises:
        UserError: as :func:`compile_model`.
    """
    expect_compiler(device)
    for block in blocks:
        block.compile()


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
