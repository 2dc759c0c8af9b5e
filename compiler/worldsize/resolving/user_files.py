"""Files of the user's tree that join a step's snapshot: ``code:`` beside ``uses:``, and a user's model."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from worldsize.azureml import snapshot
from worldsize.azureml.copying import read_listed
from worldsize.azureml.model import Literal
from worldsize.azureml.references import describe_missing, exists, is_file, local_path, normalise
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import describe_os_error
from worldsize.documents.yaml.nodes import Scalar
from worldsize.facts.built_in_components import find_facts
from worldsize.resolving import model_folders
from worldsize.resolving.state import ResolveState, part_span
from worldsize.spec.model import Located

if TYPE_CHECKING:
    import ast


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
    if isinstance(located.node, Scalar) and located.node.text.startswith(model_folders.PREFIX):
        model_folders.add_folder(state, located, added)
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
        span = part_span(located, 0, len(file))
        state.problems.append(describe_missing("the input", file, path, span).under("user-model-missing"))
    elif state.files.may_judge(path):
        own = Snapshot()
        state.problems += snapshot.add_to_snapshot(own, path, located.span, state.files.gate)
        for source in own.files.values():
            if isinstance(source, Path) and _defines(state, located, source, len(file) + 1, function):
                added.files.setdefault(normalise(Path(file)).as_posix(), source)


def _defines(state: ResolveState, located: Located[str], path: Path, start: int, function: str) -> bool:
    """Whether a file defines a function, read without running it."""
    from worldsize.resolving.user_hooks import check_hooks
    from worldsize.scripts.module import parse_text  # only a model of the user is parsed

    span = part_span(located, start, start + len(function))
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
    names = set(_top_level(tree))
    if function in names or "*" in names:
        state.problems += check_hooks(tree, path, function, located.span)
        return True
    message = f"`{path.name}` defines no function `{function}`"
    help_ = did_you_mean(function, {name for name in names if not name.startswith("_")})
    state.report(
        "user-model-missing", span, message, help_ or f"define `def {function}(...)` at its top level"
    )
    return False


def _top_level(tree: ast.Module) -> list[str]:
    """Names a module binds, also below ``if`` and ``try``."""
    import ast

    names: list[str] = []
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            waiting += [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)]
            waiting += [inner for handler in getattr(node, "handlers", ()) for inner in handler.body]
    return names
