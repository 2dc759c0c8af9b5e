"""Gets the pipeline job of a target: the job itself, or a reference `file.py:function` to what makes it."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from worldsize.errors import PipelineError

_MODULE = "worldsize_pipeline"
INSTALL = "pip install 'worldsize[azure]'"


def is_job(target: object) -> bool:
    """Whether ``target`` is a pipeline job of azure-ai-ml."""
    return hasattr(target, "jobs") and hasattr(target, "dump")


def is_reference(target: object) -> bool:
    """Whether ``target`` names a function in a Python file, such as ``pipelines/digits.py:digits``."""
    return isinstance(target, str) and target.rpartition(":")[0].endswith(".py") and not Path(target).exists()


def load_job(reference: str) -> Any:
    """Import the file of a reference and return its pipeline job; this runs the file's code.

    Args:
        reference: ``file.py:name``, where ``name`` is a function without required parameters, such as one
            with ``@dsl.pipeline``, or a pipeline job.

    Raises:
        PipelineError: There is no such file or name, the code fails, or it does not return a pipeline job.
    """
    file, _, name = reference.rpartition(":")
    module = _import_file(Path(file))
    if not hasattr(module, name):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value) or is_job(value)]
        close = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(known) or 'none'}"
        raise PipelineError(f"`{file}` has no function `{name}`", advice)
    job = getattr(module, name)
    if callable(job) and not is_job(job):
        job = _call(job, reference)
    if not is_job(job):
        raise PipelineError(
            f"`{reference}` is a `{type(job).__name__}`, not a pipeline job",
            "name a function with `@dsl.pipeline`, or one that returns the job of such a function",
        )
    return job


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise PipelineError(f"there is no file `{path}`", "write `path/to/file.py:function`")
    spec = importlib.util.spec_from_file_location(_MODULE, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    sys.path.insert(0, str(path.parent.resolve()))  # as when Python runs the file
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        advice = INSTALL if package == "azure" else f"install `{package}`"
        raise PipelineError(
            f"importing `{path}` needs `{error.name}`, which is not installed", advice
        ) from error
    except Exception as error:
        raise _failed(f"importing `{path}`", error, path) from error
    finally:
        sys.path.pop(0)
    return module


def _call(function: Any, reference: str) -> Any:
    file = Path(reference.rpartition(":")[0])
    required = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if required:
        named = ", ".join(f"`{name}`" for name in required)
        raise PipelineError(
            f"`{reference}` needs a value for {named}",
            "give its parameters defaults, or name a function that calls it with values",
        )
    try:
        return function()
    except Exception as error:
        raise _failed(f"`{reference}`", error, file) from error


def _failed(what: str, error: Exception, file: Path) -> PipelineError:
    text = (error.msg if isinstance(error, SyntaxError) else str(error)).strip().partition("\n")[0]
    message = f"{what} raised {type(error).__name__}" + (f": {text[:200]}" if text else "")
    if isinstance(error, SyntaxError) and error.filename:
        return PipelineError(message, f"look at {Path(error.filename).name}, line {error.lineno}")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).resolve() == file.resolve()]
    return PipelineError(
        message, f"look at {file.name}, line {own[-1].lineno}" if own else "run the file in Python"
    )
