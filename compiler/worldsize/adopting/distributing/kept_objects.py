"""Objects of the script's own classes that a loop over epochs changes, such as one that stops it early."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from worldsize.adopting.distributing.kept_numbers import list_before, list_made
from worldsize.adopting.source.reading import list_classes_beside
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.adopting.training.epoch_counter import EpochLoop, list_assigned

_HEAVY = re.compile(r"model|net\b|weight|state|optim|loader|data|shadow|param", re.IGNORECASE)
_PLAIN_CALLS = ("float", "int", "min", "max", "abs", "round", "len")
_CHANGES = ("append", "extend", "update", "pop", "insert", "clear", "add")
_PARTS = (ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.List, ast.Tuple, ast.Dict)


class Kept(Struct, frozen=True):
    """An object, as the loop names it."""

    name: str
    is_plain: bool  # its attributes are numbers and texts, which a checkpoint can have


def list_objects(script: Script, tracer: Tracer, loop: EpochLoop) -> list[Kept]:
    """The objects that have a state of their own, and that the loop, or the class around it, calls."""
    around = next((up for up, _ in script.module.ancestors(loop) if isinstance(up, ast.ClassDef)), None)
    calls = [
        node.func
        for top in (loop, around)
        for node in (ast.walk(top) if top is not None else ())
        if isinstance(node, ast.Call)
    ]
    called = {ast.unparse(each) for each in calls}
    called |= {ast.unparse(each.value) for each in calls if isinstance(each, ast.Attribute)}
    beside = dict(list_classes_beside(script.module))
    found: dict[str, Kept] = {}
    for statement in (*list_before(script, loop), *list_made(script, loop)):
        value = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(value, ast.Call):
            continue
        name = getattr(value.func, "id", "")
        class_ = tracer.classes.get(name) or beside.get(name)
        if class_ is not None and not class_.bases and _changes_itself(class_):
            for target in map(ast.unparse, statement.targets):
                if target in called:
                    found[target] = Kept(target, _is_plain(class_, value))
    return sorted(found.values(), key=lambda each: each.name)


def list_collections(script: Script, loop: EpochLoop) -> list[str]:
    """The lists, and mappings of lists, to which the loop appends numbers of each epoch."""
    empty = {
        ast.unparse(target)
        for statement in (*list_before(script, loop), *list_made(script, loop))
        for target, value in list_assigned(statement)
        if _is_empty(value)
    }
    stored = {
        ast.unparse(target)
        for node in ast.walk(loop)
        if isinstance(node, ast.stmt)
        for target, _ in list_assigned(node)
    }
    appended: dict[str, list[ast.expr]] = {}
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "append":
            assert isinstance(node.func, ast.Attribute)
            base = node.func.value
            name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            appended.setdefault(name, []).extend(node.args)
    return sorted(
        name for name, values in appended.items()
        if name in empty - stored and not any(_HEAVY.search(ast.unparse(each)) for each in values)
    )  # fmt: skip


def _is_empty(node: ast.expr) -> bool:
    """Whether an expression is ``[]``, or ``{"loss": [], …}``."""
    if isinstance(node, ast.Dict):
        return bool(node.values) and all(map(_is_empty, node.values))
    return isinstance(node, ast.List) and not node.elts


def _list_stored(class_: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """What methods set attributes to or put into them, with the name of the method."""
    for method in class_.body:
        for node in ast.walk(method) if isinstance(method, ast.FunctionDef) else ():
            assert isinstance(method, ast.FunctionDef)
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any("self." in ast.unparse(each) for each in targets):
                    yield method.name, node.value
            elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("self."):
                changes = getattr(node.func, "attr", "") in _CHANGES
                if changes:
                    yield from ((method.name, each) for each in node.args or (None,))


def _changes_itself(class_: ast.ClassDef) -> bool:
    return any(method != "__init__" for method, _ in _list_stored(class_))


def _is_plain(class_: ast.ClassDef, made: ast.Call) -> bool:
    """Whether all that an object keeps, also what it is made with, are numbers and texts."""
    given = [*made.args, *(each.value for each in made.keywords)]
    start = next((each for each in class_.body if getattr(each, "name", "") == "__init__"), None)
    if isinstance(start, ast.FunctionDef):
        defaults = (*start.args.defaults, *start.args.kw_defaults)
        given += [each for each in defaults if each is not None and ast.unparse(each) != "print"]
    return all(map(_is_number, given)) and all(
        value is None or _is_number(value) for _, value in _list_stored(class_)
    )


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant | ast.operator | ast.unaryop | ast.boolop | ast.cmpop):
        return True
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return not _HEAVY.search(ast.unparse(node))
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _PLAIN_CALLS:
        return True
    parts = [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr_context)]
    return isinstance(node, _PARTS) and all(_is_number(each) for each in parts)  # type: ignore[arg-type]
