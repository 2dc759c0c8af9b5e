"""Files of the user's tree that join a step's snapshot: ``code:`` beside ``uses:``, and a user's model."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import snapshot
from worldsize.azureml.copying import read_listed
from worldsize.azureml.model import Literal
from worldsize.azureml.references import describe_missing, exists, is_file, is_folder, local_path, normalise
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import describe_os_error
from worldsize.documents.yaml.nodes import Scalar
from worldsize.facts.built_in_components import find_facts
from worldsize.resolving.state import ResolveState
from worldsize.scripts.module import parse_text
from worldsize.spec.model import Located


def collect_files(state: ResolveState, step: str) -> Snapshot:
    """What the user's tree adds to the snapshot of a step with ``uses:``; faults are reported."""
    added = Snapshot()
    spec_step = state.spec.steps[step]
    if spec_step.uses is None:
        return added
    if spec_step.code is not None:
        path = local_path(spec_step.code.value, state.folder)
        if path is not None and not exists(path):
            missing = describe_missing("`code`", spec_step.code.value, path, spec_step.code.span)
            state.problems.append(missing.under("code-missing"))
        elif path is not None and state.files.may_judge(path):
            state.problems += snapshot.add_to_snapshot(
                added, path, spec_step.code.span, state.files.gate, path.name
            )
    _user_function(state, step, added)
    return added


def _user_function(state: ResolveState, step: str, added: Snapshot) -> None:
    """Take in the user's file where an input names a function of it."""
    facts = find_facts(state.components.get(step))
    name = facts.code_input if facts is not None else None
    located = state.spec.steps[step].with_.get(name) if name is not None else None
    if located is None or name is None or not isinstance(state.arguments[step][name].value, Literal):
        return
    if isinstance(located.node, Scalar) and located.node.text.startswith(PREFIX):
        add_folder(state, located, added)
    elif isinstance(located.node, Scalar) and ".py" in located.node.text:
        _user_file(state, located, added)


def _user_file(state: ResolveState, located: Located[Any], added: Snapshot) -> None:
    text = located.value
    file, _, function = text.partition(":")
    path = normalise(state.folder / file)
    if not function:
        message = f"`{text}` names a file but no function in it"
        state.report("user-model-missing", located.span, message, f"write `{file}:function`")
    elif file.startswith("/") or ".." in PurePosixPath(normalise(Path(file))).parts:
        message = f"`{file}` is outside the spec's folder, so it cannot keep its place in the snapshot"
        state.report("user-model-missing", located.span, message, "move it below the folder of the spec")
    elif not is_file(path):
        span = located.subspan(0, len(file))
        state.problems.append(describe_missing("the input", file, path, span).under("user-model-missing"))
    elif state.files.may_judge(path):
        taken = Snapshot()
        state.problems += snapshot.add_to_snapshot(taken, path, located.span, state.files.gate)
        for source in taken.files.values():
            if isinstance(source, Path) and _defines(state, located, source, len(file) + 1, function):
                added.files.setdefault(normalise(Path(file)).as_posix(), source)


def _defines(state: ResolveState, located: Located[str], path: Path, start: int, function: str) -> bool:
    span = located.subspan(start, start + len(function))
    try:
        tree = parse_text(read_listed(path))
    except OSError as error:
        message = f"`{path.name}` cannot be read: {describe_os_error(error)}"
        state.report("user-model-missing", located.span, message, "write the function in a file of its own")
        return False
    except SyntaxError as error:
        where = f" in line {error.lineno}: {error.msg}" if error.lineno else f": {error.msg}"
        message = f"`{path.name}` is not valid Python{where}"[:200]
        state.report("user-model-missing", located.span, message, "mend the file")
        return False
    names = set().union(*map(_bound_names, tree.body))
    if function in names or "*" in names:
        state.problems += check_hooks(tree, path, function, located.span)
        return True
    message = f"`{path.name}` defines no function `{function}`"
    help_ = did_you_mean(function, {name for name in names if not name.startswith("_")})
    state.report(
        "user-model-missing", span, message, help_ or f"define `def {function}(...)` at its top level"
    )
    return False


_CALLS = {
    "loss": "loss(outputs, targets)",
    "metrics": "metrics(outputs, targets)",
    "prepare": "prepare(inputs) or prepare(inputs, generator)",
}


def check_hooks(tree: ast.Module, path: Path, function: str, model: Span) -> Iterator[Problem]:
    """Report hooks whose parameters do not fit the trainers' call.

    Args:
        tree: the user's file.
        path: its name.
        function: the one that makes the model, which is no hook.
        model: where the file is named.
    """
    for name, call in _CALLS.items():
        binding = [node for node in tree.body if name in _bound_names(node)]
        hook = binding[0] if len(binding) == 1 else None
        # A decorator may change the parameters, and another binding may replace the function.
        if not isinstance(hook, ast.FunctionDef) or hook.decorator_list or name == function:
            continue
        if _accepts(hook.args, 2) or (name == "prepare" and _accepts(hook.args, 1)):
            continue
        start = hook.col_offset + len("def ") + 1
        span = Span(str(path), hook.lineno, start, hook.lineno, start + len(name))
        message = f"`{name}({ast.unparse(hook.args)})` cannot be called as `{call}`, as the training does"
        help_ = "change its parameters, or rename it if it is not meant for the training"
        yield Problem("user-hook-signature", span, message, help_, (Related(model, "the model's file"),))


def _accepts(arguments: ast.arguments, count: int) -> bool:
    """Whether a function with these parameters can be called with so many positional arguments."""
    positional = len(arguments.posonlyargs) + len(arguments.args)
    needed = positional - len(arguments.defaults)
    most = count if arguments.vararg is not None else positional
    return needed <= count <= most and all(default is not None for default in arguments.kw_defaults)


def _bound_names(node: ast.stmt) -> set[str]:
    """Names that a statement binds, also below ``if`` and ``try``."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    inner = [part for part in ast.walk(node) if isinstance(part, ast.stmt) and part is not node]
    stored = (name for name in ast.walk(node) if isinstance(name, ast.Name))
    names = {name.id for name in stored if isinstance(name.ctx, ast.Store | ast.Del)}
    if isinstance(node, ast.Import | ast.ImportFrom):
        names |= {alias.asname or alias.name for alias in node.names}
    return names.union(*(_bound_names(part) for part in inner))


PREFIX = "hf:"
_CONFIG = "config.json"
_SLUG = "user-model-missing"
_PICKLED = (".bin", ".pt", ".pth")
_WRITE = (
    "write the folder with `save_pretrained`, or bind `initial_model` to a registered model and write `hf:`"
)


def add_folder(state: ResolveState, located: Located[Any], added: Snapshot) -> None:
    """Take in the folder that an input names after ``hf:``; what a trainer would refuse in it is reported."""
    text = str(located.value).removeprefix(PREFIX)
    if not text:
        return  # the model is another input's
    place = PurePosixPath(normalise(Path(text)))
    path = normalise(state.folder / text)
    span = located.subspan(len(PREFIX), len(PREFIX) + len(text))
    if text.startswith("/") or ".." in place.parts:
        message = f"`{text}` is outside the spec's folder, so it cannot keep its place in the snapshot"
        state.report(_SLUG, span, message, "move it below the folder of the spec")
    elif not is_folder(path):
        missing = describe_missing("the input", text, path, span).under(_SLUG)
        help_ = f"{missing.help}; `{PREFIX}` names a folder on this machine, and nothing is downloaded"
        state.problems.append(replace(missing, help=help_))
    elif state.files.may_judge(path):
        taken = Snapshot()
        state.problems += snapshot.add_to_snapshot(taken, path, located.span, state.files.gate, str(place))
        fault = _find_fault(taken, place, text)
        if fault is not None:
            state.report(_SLUG, span, fault, _WRITE)
        for name, source in taken.files.items():
            added.files.setdefault(name, source)


def _find_fault(taken: Snapshot, place: PurePosixPath, text: str) -> str | None:
    """What makes a folder no Hugging Face model."""
    config = taken.files.get(str(place / _CONFIG))
    names = [PurePosixPath(name) for name in taken.files if PurePosixPath(name).parent == place]
    if not isinstance(config, Path):
        return f"`{text}` has no `{_CONFIG}`, so it is not a Hugging Face model"
    if not any(name.suffix == ".safetensors" for name in names):
        pickled = sorted(name.name for name in names if name.suffix in _PICKLED)
        has = f", only `{pickled[0]}`, whose format can run code" if pickled else ""
        return f"`{text}` has no weights as `*.safetensors`{has}"
    try:
        content = json.loads(read_listed(config))
    except (ValueError, RecursionError) as error:
        at = f": line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return f"`{text}/{_CONFIG}` is not JSON{at}"
    except OSError:
        return None  # it went away meanwhile
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        return f"`{text}/{_CONFIG}` names no `model_type`"
    return None
