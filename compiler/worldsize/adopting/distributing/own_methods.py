"""The methods that a loop over epochs calls of its own object, and what they change for all epochs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from worldsize.adopting.source.script import Script
from worldsize.adopting.training.epoch_counter import EpochLoop, list_assigned

Change: TypeAlias = ast.Assign | ast.AugAssign | ast.AnnAssign


def list_classes(script: Script, loop: EpochLoop) -> list[ast.ClassDef]:
    """The class around a loop, with its base classes of the script and the classes that inherit from it."""
    around = next((up for up, _ in script.module.ancestors(loop) if isinstance(up, ast.ClassDef)), None)
    if around is None:
        return []
    classes = script.module.kinds.get(ast.ClassDef, ())
    bases = {each.name: {getattr(base, "id", "") for base in each.bases} for each in classes}
    near = [each for each in classes if each.name in bases[around.name] or around.name in bases[each.name]]
    return [around, *near]


def list_methods(script: Script, loop: EpochLoop) -> dict[ast.FunctionDef, bool]:
    """The methods that a loop calls, also one by another, and whether each runs every time around."""
    methods: dict[str, list[ast.FunctionDef]] = {}
    for class_ in list_classes(script, loop):
        for each in class_.body:
            if isinstance(each, ast.FunctionDef):
                methods.setdefault(each.name, []).append(each)
    found: dict[ast.FunctionDef, bool] = {}
    left: list[tuple[list[ast.stmt], bool]] = [(loop.body, True)]
    while left:
        body, always = left.pop(0)
        for statement in _list_unconditional(body):
            runs = always and not isinstance(statement, ast.If | ast.Try)
            for method in (one for name in _list_called(statement) for one in methods.get(name, ())):
                if method not in found:
                    found[method] = runs
                    left.append((method.body, runs))
    return found


def _list_unconditional(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, with those inside of its loops and `with`, and without those of an `if`."""
    for statement in body:
        if isinstance(statement, ast.For | ast.While | ast.With):
            yield from _list_unconditional(statement.body)
        else:
            yield statement


def _list_called(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and getattr(func.value, "id", "") == "self":
            yield func.attr


def list_kept_changes(script: Script, loop: EpochLoop) -> list[Change]:
    """Where methods count, or set what is compared, in attributes that do not begin anew each epoch."""
    methods = list_methods(script, loop)
    nodes = [node for top in (loop, *methods) for node in ast.walk(top)]
    compared = {
        ast.unparse(each)
        for node in nodes
        if isinstance(node, ast.Compare)
        for each in (node.left, *node.comparators)
    }
    anew = _list_anew(loop.body).union(*(_list_anew(each.body) for each, always in methods.items() if always))
    found: list[Change] = []
    for method in methods:
        started = anew | _list_anew(method.body)
        for node in ast.walk(method):
            names: set[str] = set()
            if isinstance(node, ast.AugAssign):
                names = {ast.unparse(node.target)}
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                pairs = [(ast.unparse(target), value) for target, value in list_assigned(node)]
                names = {name for name, value in pairs if name in compared or counts(name, value)}
            if any(each.startswith("self.") for each in names) and not names & started:
                found.append(node)  # type: ignore[arg-type]
    return found


def counts(name: str, value: ast.expr) -> bool:
    """Whether a value is ``self.step + 1``, for `self.step`."""
    sides = (value.left, value.right) if isinstance(value, ast.BinOp) else ()
    return any(ast.unparse(each) == name for each in sides) and any(
        isinstance(each, ast.Constant) for each in sides
    )


def _list_anew(body: list[ast.stmt]) -> set[str]:
    """What statements set to something that does not depend on what it was."""
    return {
        name
        for statement in _list_unconditional(body)
        for name, value in ((ast.unparse(target), value) for target, value in list_assigned(statement))
        if name not in map(ast.unparse, ast.walk(value))
    }
