"""Gets the pipeline job of a target: the job itself, or a reference `file.py:function` to what makes it."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from worldsize.base import untrusted
from worldsize.base.suggest import did_you_mean
from worldsize.documents.errors import PipelineError, SpecError
from worldsize.remote.errors import INSTALL

PLANNED = "worldsize_planned"  # the attribute of a job with what was planned

if TYPE_CHECKING:
    from worldsize.checking import CheckedSpec

_MODULE = "worldsize_pipeline"
_REFERENCE = re.compile(r"(.*\.py)(::|[:#@])(.*)")  # the first is what pytest writes
_UNKNOWN_KEYWORD = re.compile(
    r"unexpected keyword argument '(?P<keyword>[^']+)', valid keywords: (?P<known>.*)"
)
_DECORATED = re.compile(
    r"^@(?:[\w.]{1,80}\.)?pipeline\b[^\n]{0,200}\n(?:[ \t)@][^\n]{0,200}\n){0,20}def (\w{1,100})\(",
    re.MULTILINE,
)
_FUNCTION = re.compile(r"^def (\w{1,100})\(", re.MULTILINE)
_WORD = re.compile(r"[:.](\w+)$")


def is_job(target: object) -> bool:
    """Whether ``target`` is a pipeline job of azure-ai-ml."""
    return hasattr(type(target), "jobs") and hasattr(target, "dump")  # other nodes have every attribute


def find_planned(job: Any) -> CheckedSpec | None:
    """What was planned of a pipeline job."""
    return getattr(job, PLANNED, None)


def is_reference(target: object) -> bool:
    """Whether ``target`` names a function in a Python file, such as ``pipelines/digits.py:digits``."""
    return isinstance(target, str) and _REFERENCE.fullmatch(target) is not None and not Path(target).exists()


def name_reference(path: str) -> str | None:
    """The reference that a path may stand for: ``digits.py:digits`` for ``digits:digits`` and the like."""
    match = _WORD.search(path)
    if match is None or path.endswith(".py"):
        return None
    file = Path(path[: match.start()].replace(".", "/") + ".py")
    return f"{file}:{match[1]}" if file.is_file() else None


def _is_function(target: object) -> bool:
    return callable(target) and not is_of_client(target)


def is_of_client(target: object) -> bool:
    """Whether ``target`` is a job, node or component of azure-ai-ml; nodes have every attribute."""
    return type(target).__module__.startswith("azure.ai.ml")


def require_job(target: Any, what: str, example: str) -> Any:
    """Return ``target`` if it is a pipeline job.

    Args:
        target: What may be one.
        what: Its name in the message.
        example: What to write where a function is meant.

    Raises:
        PipelineError: It is a function that was not called, a single node, or anything else.
    """
    if is_job(target):
        return target
    if _is_function(target):
        raise PipelineError(f"{what} is a function, not a pipeline job", f"call it: {example}")
    kind = type(target).__name__
    if is_of_client(target):
        raise PipelineError(
            f"{what} is a single `{kind}` of azure-ai-ml, not a pipeline job",
            "use it inside a function with `@dsl.pipeline`, and give the job that this function returns",
        )
    raise PipelineError(
        f"{what} is a `{kind}`, not a pipeline job",
        "name a function with `@dsl.pipeline`, or one that returns the job of such a function",
    )


def load_job(reference: str) -> Any:
    """Import the file of a reference and return its pipeline job; this runs the file's code.

    Args:
        reference: ``file.py:name``, where ``name`` is a function without required parameters, such as one
            with ``@dsl.pipeline``, or a pipeline job.

    Raises:
        PipelineError: There is no such file or name, the code fails, or it does not return a pipeline job.
        SpecError: The function plans its job, and the numbers do not fit.
    """
    match = _REFERENCE.fullmatch(reference)
    assert match is not None
    file, separator, name = match.groups()
    if separator != ":" and Path(file).is_file():
        raise PipelineError(
            f"`{reference}` has `{separator}` between file and function", f"write `{file}:{name}`"
        )
    module = _import_file(Path(file))
    if not name or not hasattr(module, name):
        raise PipelineError(
            f"`{file}` has no function `{name}`" if name else f"`{reference}` names no function",
            _list_functions(module, file, name),
        )
    job = getattr(module, name)
    if _is_function(job) and not is_job(job):
        job = _call(job, reference, Path(file))
    return require_job(job, f"`{reference}`", f"`{name}()`")


def _list_functions(module: ModuleType, file: str, name: str) -> str:
    """Advice: which functions of its own a file has."""
    names = [
        key
        for key, value in vars(module).items()
        if is_job(value) or (inspect.isfunction(value) and value.__module__ == _MODULE)
    ]
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean `{file}:{close[0]}`?"
    return f"it has {', '.join(f'`{name}`' for name in names)}" if names else "it has none: write one"


def suggest_functions(file: str) -> str:
    """Advice: the pipelines of a Python file, those that are planned first, found without running it."""
    text = _read(file)
    names = dict.fromkeys([*_find_planning(text), *_DECORATED.findall(text)])
    if names:
        return f"write {' or '.join(f'`{file}:{name}`' for name in [*names][:5])}"
    return (
        f"name the function with `@dsl.pipeline`: `{file}:FUNCTION`;"
        f" a training script needs a job, which `worldsize adopt {file}` writes"
    )


def suggest_planning(reference: str) -> str:
    """Advice where the function of a reference does not plan its job: another one of its file that plans."""
    match = _REFERENCE.fullmatch(reference)
    file = match[1] if match is not None else ""
    names = _find_planning(_read(file))
    if names:
        return f"`{names[0]}` plans one: write `{file}:{names[0]}`"
    return "call `worldsize.plan(job, instance_types=…, scale=…)` in the function before it returns the job"


def _read(file: str) -> str:
    try:
        return untrusted.read_text(file)
    except OSError:
        return ""


def _find_planning(text: str) -> list[str]:
    """The functions of a file that plan a job and need no argument."""
    _, *parts = _FUNCTION.split(text)
    return [
        name
        for name, rest in zip(parts[::2], parts[1::2], strict=True)
        if rest.startswith(")") and "worldsize.plan(" in rest
    ]


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


def _call(function: Any, reference: str, file: Path) -> Any:
    required = [
        f"`{parameter.name}`"
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if required:
        raise PipelineError(
            f"`{reference}` needs a value for {', '.join(required)}",
            "give its parameters defaults, or name a function that calls it with values",
        )
    try:
        return function()
    except SpecError:
        raise  # its findings explain more than its name
    except PipelineError as error:
        raise PipelineError(str(error), f"{error.help} ({_find_line(error, file)})") from error
    except Exception as error:
        raise _failed(f"`{reference}`", error, file) from error


def _failed(what: str, error: Exception, file: Path) -> PipelineError:
    text = (error.msg if isinstance(error, SyntaxError) else str(error)).strip().partition("\n")[0]
    unknown = _UNKNOWN_KEYWORD.search(text)
    if unknown is not None:  # azure-ai-ml lists all inputs of the component, which may be a screen of them
        keyword, keywords = unknown["keyword"], re.findall(r"'([^']+)'", unknown["known"])
        names = ", ".join(f"`{name}`" for name in keywords[:12])
        hint = did_you_mean(keyword, keywords) or f"write one of {names}"
        return PipelineError(
            f"{what} gives a component the input `{keyword}`, which it does not have",
            f"{hint} ({_find_line(error, file)})",
        )
    message = f"{what} raised {type(error).__name__}" + (f": {text[:200]}" if text else "")
    if isinstance(error, SyntaxError) and error.filename:
        return PipelineError(message, f"look at {Path(error.filename).name}, line {error.lineno}")
    return PipelineError(message, _find_line(error, file))


def _find_line(error: Exception, file: Path) -> str:
    """Advice: where the error comes from in a file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == file.resolve()]
    return f"look at {file.name}, line {lines[-1]}" if lines else "run the file in Python"
