"""Names that nothing binds, and packages that are hidden or not installed."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from worldsize.azureml.fields import read_command, read_member
from worldsize.azureml.model import Component
from worldsize.azureml.references import folder_of, local_path
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Related
from worldsize.documents.yaml.nodes import Node, Scalar, find_node, list_items
from worldsize.facts import table
from worldsize.scripts.edits import add_import
from worldsize.scripts.loops import find_block
from worldsize.scripts.module import Module, list_block, list_bound_names
from worldsize.scripts.program import Program, find_imported, read_module

_RANK = re.compile(r"rank|worker|task|chief|master|is_main", re.IGNORECASE)


def check_guard_never_set(context: Tree, program: Program) -> Iterator[Finding]:
    for module, name in program.find(_never_set):
        message = f"this condition reads `{name.id}`, but nothing in the script sets it"
        source = 'json.loads(os.environ["TF_CONFIG"])["task"]["index"]'
        value = source if program.launch.kind == "tensorflow" else 'int(os.environ["RANK"])'
        help_ = f"set it first: `{name.id} = {value}`"
        yield Finding(module.span(name), message, help_, related=program.related)


def check_gate_overwritten(context: Tree, program: Program) -> Iterator[Finding]:
    for module, (computed, overwritten, test) in program.find(_list_overwritten):
        message = f"`{overwritten.id}` no longer has the value that it was given in line {computed.lineno}"
        related = (
            Related(module.span(computed), "the value that is never tested"),
            Related(module.full_span(test), "the condition, which always has the same answer"),
            *program.related,
        )
        yield Finding(
            module.span(overwritten), message, "delete the line, so that the value decides", related=related
        )


def _list_overwritten(module: Module) -> list[tuple[ast.Name, ast.Name, ast.expr]]:
    """Names whose computed value nothing tests before a constant replaces it, and the condition on them."""
    shared = {name for node in module.kinds.get(ast.Global, ()) for name in getattr(node, "names", ())}
    listed = []
    for node in module.kinds.get(ast.If, ()):
        assert isinstance(node, ast.If)
        names = [part for part in ast.walk(node.test) if isinstance(part, ast.Name)]
        simple = all(isinstance(part, _PLAIN) for part in ast.walk(node.test))
        if len(names) != 1 or not simple or names[0].id in shared:
            continue
        before = _find_statement_before(module, node, names[0].id)
        if before is None or not isinstance(before.value, ast.Constant):
            continue
        scope, target = find_block(module, node), before.targets[0]
        stores = [
            store
            for store in module.stores(names[0].id)
            if find_block(module, store) is scope and store.lineno < before.lineno
        ]
        last = max(stores, key=lambda store: store.lineno, default=None)
        holder = module.parents.get(last) if last is not None else None
        is_computed = isinstance(holder, ast.Assign) and any(
            isinstance(part, ast.Call) for part in ast.walk(holder.value)
        )
        if last is None or not is_computed or not isinstance(target, ast.Name):
            continue
        if not _is_tested(module, names[0].id, last.lineno, before.lineno):
            listed.append((last, target, node.test))
    return listed


_PLAIN = (ast.Name, ast.Constant, ast.Compare, ast.UnaryOp, ast.expr_context, ast.cmpop, ast.unaryop)


def _find_statement_before(module: Module, node: ast.If, name: str) -> ast.Assign | None:
    """The statement before another one in its block that has a name, if it only assigns to it."""
    parent = module.parents.get(node)
    uses = [use for use in module.mentions(name) if isinstance(use, ast.Name) and use.lineno < node.lineno]
    last: ast.AST | None = max(uses, key=lambda use: use.lineno, default=None)
    while last is not None and module.parents.get(last) is not parent:
        last = module.parents.get(last)
    if not isinstance(last, ast.Assign) or [getattr(target, "id", "") for target in last.targets] != [name]:
        return None
    branches = any(getattr(parent, field, None) for field in ("orelse", "handlers", "finalbody"))
    assert parent is not None
    return last if not branches or list_block(parent, node) is list_block(parent, last) else None


def _is_tested(module: Module, name: str, start: int, end: int) -> bool:
    """Whether a condition reads a name between two lines."""
    tests = (
        node.test
        for kind in (ast.If, ast.While, ast.IfExp, ast.Assert)
        for node in module.kinds.get(kind, ())
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert) and start <= node.lineno <= end
    )
    return any(isinstance(part, ast.Name) and part.id == name for test in tests for part in ast.walk(test))


def _never_set(module: Module) -> list[ast.Name]:
    """The first use in a condition of every name that nothing sets."""
    used = {name.id for name in module.kinds.get(ast.Name, ())}
    ranks = {name for name in used if _RANK.search(name)}
    bound = list_bound_names(module) if ranks else None  # few files speak of ranks
    unset = ranks - bound if bound is not None else set()
    nodes: dict[str, ast.Name] = {}
    seen: set[ast.AST] = set()
    for node in module.nodes if unset else ():
        if len(nodes) == len(unset):
            break
        if isinstance(node, ast.If | ast.IfExp) and node.test not in seen:
            for inner in ast.walk(node.test):
                seen.add(inner)
                if isinstance(inner, ast.Name) and inner.id in unset:
                    nodes.setdefault(inner.id, inner)
    return list(nodes.values())


_SAME = (
    "os", "sys", "json", "time", "math", "random", "argparse", "logging", "shutil", "glob", "re", "torch",
    "mlflow",
)  # fmt: skip
_MODULES = {name: f"import {name}" for name in _SAME} | {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "tf": "import tensorflow as tf",
    "dist": "import torch.distributed as dist",
    "hvd": "import horovod.torch as hvd",
}


def check_module_not_imported(context: Tree, program: Program) -> Iterator[Finding]:
    for module, base in program.find(_not_imported):
        message = f"`{base.id}` is used here, but nothing imports it"
        help_ = f"write `{_MODULES[base.id]}` at the top"
        # Without the import the script ends here; the short names can stand for other packages.
        is_safe = base.id in sys.stdlib_module_names
        fix = add_import(module, _MODULES[base.id], safe=is_safe)
        yield Finding(module.span(base), message, help_, related=program.related, fix=fix)


def _not_imported(module: Module) -> list[ast.Name]:
    """The first use of each module that nothing binds."""
    bound = list_bound_names(module)
    missing = set() if bound is None else _MODULES.keys() - bound
    nodes: dict[str, ast.Name] = {}
    for node in module.kinds.get(ast.Attribute, ()) if missing else ():
        base = node.value
        if isinstance(base, ast.Name) and base.id in missing:
            nodes.setdefault(base.id, base)
    return list(nodes.values())


_HIDDEN = (
    "torch", "torchvision", "tensorflow", "keras", "horovod", "mpi4py", "deepspeed", "mlflow", "numpy",
    "pandas", "transformers", "accelerate", "lightning", "ray", "azureml", "sklearn", "random", "logging",
    "json", "types", "queue", "copy", "socket", "platform", "inspect", "signal", "statistics", "typing",
    "string",
)  # fmt: skip


def check_name_shadows_module(context: Tree, program: Program) -> Iterator[Finding]:
    folder = program.path.parent
    for module in program.modules:
        for name, level, statement in module.imports:
            top = name.partition(".")[0]
            if level or top not in _HIDDEN:
                continue
            for path in (folder / f"{top}.py", folder / top / "__init__.py"):
                if context.exists(path) and not _extends_path(context, path):
                    shown = path.name if path.parent == folder else f"{top}/"
                    message = f"`import {top}` finds `{shown}` beside the script, not the package"
                    yield Finding(
                        module.span(statement), message, f"rename `{shown}`", related=program.related
                    )
                    return


# A namespace package says so in one of these calls: the installed part of it is found as well.
_EXTENDS = re.compile(r"\bextend_path\s*\(|\bdeclare_namespace\s*\(")


def _extends_path(context: Tree, path: Path) -> bool:
    source = context.text(path)
    return source is not None and _EXTENDS.search(source.text) is not None


# Images that have no packages of their own: conda makes the environment that runs.
_BASE = re.compile(r"mcr\.microsoft\.com/azureml/(?:openmpi|minimal)[\w.-]*(?:[:@].*)?")
_LINE = re.compile(r"(?:\S+::)?(?P<name>[A-Za-z0-9][\w.-]*)\s*(?P<extra>\[[^\]]*\])?\s*(?:[=<>~!; ].*)?")
_INSTALLS = re.compile(r"\b(?:install|sync|PYTHONPATH)\b|\.sh\b")  # of a command
_OTHERS = re.compile(r"\bpip\b|sys\.path|site\.addsitedir")  # in a script, which may find more
_OPTIONS = ("--index-url", "--extra-index-url", "--find-links", "-i ", "-f ", "--prefer-binary")


def check_package_not_installed(context: Tree, program: Program) -> Iterator[Finding]:
    component = program.launch.step.component
    listed = _find_conda(context, component) if component is not None else None
    if listed is None or _INSTALLS.search(read_command(component)):
        return
    root, place = listed
    provided = _list_provided(root)
    if provided is None:
        return
    reported: set[str] = set()
    if any(_OTHERS.search(module.text) for module in program.modules):
        return
    for module in _list_started(context, program):
        for name, level, statement in module.imports:
            top = name.partition(".")[0]
            package = _find_packages().get(top)
            runs = isinstance(module.parents.get(statement), ast.Module)
            if level or package is None or top in provided or top in reported or not runs:
                continue
            if any(_has_module(context, folder, top) for folder in program.folders):
                continue
            reported.add(top)
            message = f"`{top}` is imported here, but `{place.text}` does not install it"
            related = (*program.related, Related(place.span, "the environment names the conda file here"))
            help_ = f"add `{package}` to its packages, with a version"
            yield Finding(module.span(statement), message, help_, related=related)


def _list_started(context: Tree, program: Program) -> Iterator[Module]:
    """The script, and the modules beside it that run at its start: imported at the top of each file."""
    waiting, seen = [program.path], set()
    while waiting:
        path = waiting.pop(0)
        module = read_module(context, path) if path not in seen else None
        seen.add(path)
        if module is None or module not in program.modules:
            continue
        yield module
        for name, level, statement in module.imports:
            if isinstance(module.parents.get(statement), ast.Module):
                waiting += find_imported(context, path, program.folders, name, level)


def _find_conda(context: Tree, component: Component) -> tuple[Node, Scalar] | None:
    """The conda file of an environment that has no other packages, and the node that names it."""
    image = read_member(component.environment, "image")
    conda_file = read_member(component.environment, "conda_file")
    named = conda_file.node if conda_file is not None else None
    if not isinstance(named, Scalar) or not isinstance(named.value, str):
        return None
    if image is None or not isinstance(image.value, str) or not _BASE.fullmatch(image.value):
        return None
    path = local_path(named.value, folder_of(named))
    if path is None or not context.inside(path):
        return None
    root = context.document(path).root
    return (root, named) if root is not None else None


def _list_provided(root: Node) -> set[str] | None:
    """The well-known modules that a conda file installs; None if one of its packages is not known."""
    lines: list[Node] = []
    for item in list_items(find_node(root, "dependencies")):
        lines += list_items(find_node(item, "pip")) or [item]
    provided: set[str] = set()
    for line in lines:
        text = line.text.strip() if isinstance(line, Scalar) else ""
        if text.startswith(_OPTIONS):
            continue
        match = _LINE.fullmatch(text)
        brings = _brings().get(re.sub(r"[-_.]+", "-", match["name"]).lower()) if match is not None else None
        if match is None or brings is None or match["extra"] not in (None, "[and-cuda]"):
            return None
        provided |= brings
    return provided if lines else None


def _has_module(context: Tree, folder: Path, name: str) -> bool:
    return context.exists(folder / f"{name}.py") or context.exists(folder / name)


@cache
def _brings() -> dict[str, set[str]]:
    """The modules that a package installs, with those of the packages that it needs."""
    return {row["package"]: set(row["brings"].split()) for row in table.read_rows("python_packages")}


@cache
def _find_packages() -> dict[str, str]:
    """The package that a message names for a missing module."""
    rows = table.read_rows("python_packages")
    return {row["module"]: row["package"] for row in rows if row["module"]}
