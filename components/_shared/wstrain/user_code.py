"""Code of the user's own: a function in ``path/to/file.py:function`` that returns a model."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wsshards.errors import UserError

MODULE = "worldsize_user_model"


def is_reference(model: str) -> bool:
    """Whether ``model`` names a file and not a built-in model."""
    return ":" in model or model.endswith(".py")


def call_function(function: Callable[..., Any], offered: Mapping[str, object], reference: str) -> Any:
    """Call the user's function with those of ``offered`` that it declares.

    Raises:
        UserError: it needs something else, or it raises.
    """
    try:
        return function(**_accepted(function, offered, reference))
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"`{reference}` raised {summarize_error(error)}", locate_error(error)) from error


def load_function(reference: str) -> Callable[..., Any]:
    """Import the file that ``reference`` names and return the function.

    Raises:
        UserError: no such file or function, or the import fails.
    """
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
        raise UserError(
            f"importing model file `{file}` raised {summarize_error(error)}", locate_error(error)
        ) from error
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


def summarize_error(error: Exception) -> str:
    """Kind and first line of an error."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:120]}" if text else type(error).__name__


def locate_error(error: Exception) -> str | None:
    """The last place in the user's own files that an error passed through."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(Path.cwd())
    ]
    if isinstance(error, SyntaxError) and error.filename:
        return f"look at {Path(error.filename).name}, line {error.lineno}"
    outside = [frame for frame in own if "wstrain" not in Path(frame.filename).parts]
    return f"look at {Path(outside[-1].filename).name}, line {outside[-1].lineno}" if outside else None
