"""The user's code: a function ``path/to/file.py:function`` that returns a model."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from wsshards.errors import UserError
from wstrain.data.sample_spec import SampleSpec
from wstrain.fine_tuning import is_hugging_face

MODULE = "worldsize_user_model"


def is_reference(model: str) -> bool:
    """Whether ``model`` names a file, and not a built-in model or a Hugging Face folder."""
    return (":" in model or model.endswith(".py")) and not is_hugging_face(model)


def load_function(reference: str) -> Callable[..., Any]:
    """Import the file that ``reference`` names and return the function.

    Raises:
        UserError: no such file or function, or the import fails.
    """
    file, _, name = reference.rpartition(":")
    if not file or not name.isidentifier():
        raise UserError(f"model `{reference}` does not name a function", "write `path/to/file.py:function`")
    path = Path(file)
    if path.is_absolute() or ".." in path.parts:
        raise UserError(
            f"model file `{file}` is outside the code folder", "write a path relative to the spec"
        )
    if not path.is_file():
        raise UserError(f"model file `{file}` does not exist in the code folder `{Path.cwd().name}`")
    module = _import_file(path, file)
    function = getattr(module, name, None)
    if not callable(function):
        functions = sorted(key for key, value in vars(module).items() if inspect.isfunction(value))
        known = ", ".join(f"`{key}`" for key in functions) or "none"
        raise UserError(f"model file `{file}` has no function `{name}`", f"functions in it: {known}")
    return function  # type: ignore[no-any-return]


def _import_file(path: Path, file: str) -> ModuleType:
    loaded = sys.modules.get(MODULE)
    if loaded is not None and loaded.__file__ == str(path.resolve()):
        return loaded  # the model and its hooks share what the file keeps
    # Modules beside it must be importable, as they are when the user runs the file.
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(MODULE, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[MODULE]
        raise UserError(
            f"importing model file `{file}` raised {summarize_error(error)}", locate_error(error)
        ) from error
    return module


def unknown_model_error(name: str, known: Iterable[str]) -> UserError:
    """Return the error for a model that is neither built in nor a reference to a file."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    return UserError(
        f"unknown model `{name}`", f"{hint}known: {', '.join(known)}, or path/to/file.py:function"
    )


def call_for_model(function: Callable[..., Any], spec: SampleSpec, reference: str) -> Any:
    """Call the user's function with those of the offered parameters that it declares.

    ``input_shape`` is a tuple without the batch dimension: of a table the numbers after its columns are
    encoded. ``classes`` and ``targets`` are both the number of outputs (256 for bytes), ``task`` is a text.

    Raises:
        UserError: it needs another argument, or it raises.
    """
    offered = {
        "input_shape": spec.input_shape,
        "classes": spec.outputs,
        "targets": spec.outputs,
        "task": spec.name,
    }
    try:
        return function(**_accepted(function, offered, reference))
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"`{reference}` raised {summarize_error(error)}", locate_error(error)) from error


def expect_outputs(predict: Callable[[], Any], spec: SampleSpec, reference: str) -> None:
    """Check that a model maps samples to ``[n, outputs]``, of texts ``[n, tokens, vocabulary]``.

    Args:
        predict: calls the model with two samples.
        spec: the samples.
        reference: the user's name of the model.

    Raises:
        UserError: the model fails, or returns something else.
    """
    try:
        output = predict()
    except Exception as error:
        message = (
            f"`{reference}`: the model fails on samples {[2, *spec.input_shape]}: {summarize_error(error)}"
        )
        raise UserError(message, locate_error(error)) from error
    tokens = spec.input_shape if spec.name == "language_model" else ()
    expected = [2, *tokens, spec.outputs]
    returned = list(output.shape) if hasattr(output, "shape") else type(output).__name__
    if returned != expected:
        raise UserError(
            f"`{reference}`: the model returns {returned} for 2 samples, the task needs {expected}"
        )


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
                f"`{reference}` needs a parameter `{parameter.name}`, which is not offered",
                "its parameters may be: " + ", ".join(f"`{name}`" for name in offered),
            )
    names = {parameter.name for parameter in parameters}
    return {name: value for name, value in offered.items() if name in names}


def summarize_error(error: Exception) -> str:
    """Return the class and the first line of an error."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:120]}" if text else type(error).__name__


def locate_error(error: Exception) -> str | None:
    """Return the last line in the user's own files that an error passed through."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(Path.cwd())
    ]
    if isinstance(error, SyntaxError) and error.filename:
        return f"look at {Path(error.filename).name}, line {error.lineno}"
    outside = [frame for frame in frames if "wstrain" not in Path(frame.filename).parts]
    return f"look at {Path(outside[-1].filename).name}, line {outside[-1].lineno}" if outside else None
