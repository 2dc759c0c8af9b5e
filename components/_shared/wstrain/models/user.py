"""A model of the user's own: ``path/to/file.py:function``."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from wstrain.errors import UserError
from wstrain.tasks import Task

MODULE = "worldsize_user_model"


def is_reference(model: str) -> bool:
    """Whether ``model`` names a file and not a built-in model."""
    return ":" in model or model.endswith(".py")


def build(reference: str, task: Task) -> nn.Module:
    """Call the user's function and check what it gives.

    The function gets by name those of ``input_shape`` (tuple, without the batch), ``classes`` (int; 256 for
    bytes) and ``task`` (text) that it declares; one with no parameters gets nothing.

    Raises:
        UserError: no such file or function, it raises, it returns something else than a module, or the module
            does not map the task's samples to ``[n, classes]`` (``[n, tokens, 256]`` for a language model).
    """
    function = _load(reference)
    offered = {"input_shape": task.input_shape, "classes": task.outputs, "task": task.name}
    try:
        model = function(**_accepted(function, offered, reference))
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"`{reference}` raised {_brief(error)}", _where(error)) from error
    if not isinstance(model, nn.Module):
        raise UserError(f"`{reference}` returned `{type(model).__name__}`, not a torch.nn.Module")
    _probe(model, reference, task)
    return model


def _load(reference: str) -> Callable[..., Any]:
    file, _, name = reference.rpartition(":")
    if not file or not name.isidentifier():
        raise UserError(f"model `{reference}` names no function", "write `path/to/file.py:function`")
    path = Path(file)
    if path.is_absolute() or ".." in path.parts:
        raise UserError(
            f"model file `{file}` is outside the code folder", "write a path relative to the spec"
        )
    if not path.is_file():
        raise UserError(f"model file `{file}` does not exist in the code folder `{Path.cwd().name}`")
    # Its neighbours must be importable, as they are when the user runs the file.
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(MODULE, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"importing model file `{file}` raised {_brief(error)}", _where(error)) from error
    function = getattr(module, name, None)
    if not callable(function):
        functions = sorted(key for key, value in vars(module).items() if inspect.isfunction(value))
        known = ", ".join(f"`{key}`" for key in functions) or "none"
        raise UserError(f"model file `{file}` has no function `{name}`", f"functions in it: {known}")
    return function  # type: ignore[no-any-return]


def _accepted(
    function: Callable[..., Any], offered: Mapping[str, object], reference: str
) -> dict[str, object]:
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(offered)
    for parameter in parameters:
        needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        if needed and parameter.name not in offered:
            raise UserError(
                f"`{reference}` needs a parameter `{parameter.name}`, which nothing gives",
                "its parameters may be: " + ", ".join(f"`{name}`" for name in offered),
            )
    names = {parameter.name for parameter in parameters}
    return {name: value for name, value in offered.items() if name in names}


def _probe(model: nn.Module, reference: str, task: Task) -> None:
    # Better now than in the first step of every rank. Evaluation mode leaves running statistics alone.
    training = model.training
    try:
        with torch.no_grad():
            output = model.eval()(task.example(2))
    except Exception as error:
        shape = [2, *task.input_shape]
        raise UserError(
            f"`{reference}`: the model fails on samples {shape}: {_brief(error)}", _where(error)
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


def _brief(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:120]}" if text else type(error).__name__


def _where(error: Exception) -> str | None:
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(Path.cwd())
    ]
    if isinstance(error, SyntaxError) and error.filename:
        return f"look at {Path(error.filename).name}, line {error.lineno}"
    outside = [frame for frame in own if "wstrain" not in Path(frame.filename).parts]
    return f"look at {Path(outside[-1].filename).name}, line {outside[-1].lineno}" if outside else None
