"""Loops of a training: what one over epochs counts, and what only evaluates."""

from __future__ import annotations

import ast
import re
from typing import TypeAlias

from msgspec import Struct

from worldsize.adopting.source.script import Script
from worldsize.scripts.bindings import FUNCTIONS, Function, list_parameters

EpochLoop: TypeAlias = ast.For | ast.While


class Counted(Struct, eq=False):
    """The counter of a ``while`` loop, which starts from a number before it."""

    name: str
    bound: ast.expr  # at which the loop ends
    is_epoch: bool  # one more each time around; else it counts steps, of which each epoch has many


def find_counter(script: Script, loop: ast.While) -> Counted | None:
    """``epoch`` of ``while epoch < epochs:``, or of ``while True:`` with ``if epoch >= epochs: break``.

    It grows by one each time around, or for each of several batches.
    """
    for test in (loop.test, *_list_ends(loop)):
        if not isinstance(test, ast.Compare) or len(test.ops) > 1 or not isinstance(test.left, ast.Name):
            continue
        name, bound = test.left.id, test.comparators[0]
        stores = (node for node in ast.walk(loop) if isinstance(node, ast.Name) and node.id == name)
        steps = [script.statement(node) for node in stores if isinstance(node.ctx, ast.Store)]
        if len(steps) != 1 or not _adds_one(steps[0]) or not _starts_from_number(script, loop, name):
            continue
        is_epoch = steps[0] in loop.body
        inner = (above for above, _ in script.module.ancestors(steps[0]) if script.is_under(above, loop))
        if is_epoch or any(isinstance(loop_around, ast.For | ast.While) for loop_around in inner):
            return Counted(name, bound, is_epoch)
    return None


def _list_ends(loop: ast.While) -> list[ast.expr]:
    """The conditions under which a ``while`` that compares nothing is left."""
    if isinstance(loop.test, ast.Compare):
        return []
    return [
        node.test
        for node in ast.walk(loop)
        if isinstance(node, ast.If) and any(isinstance(last, ast.Break | ast.Return) for last in node.body)
    ]


def _adds_one(step: ast.stmt) -> bool:
    if isinstance(step, ast.AugAssign):
        return isinstance(step.op, ast.Add) and ast.unparse(step.value) == "1"
    return isinstance(step, ast.Assign) and ast.unparse(step) in (
        f"{target} = {target} + 1" for target in map(ast.unparse, step.targets)
    )


def _starts_from_number(script: Script, loop: ast.While, name: str) -> bool:
    """Whether it does, in the block of the loop, where a checkpoint can set it too."""
    block = script.block(loop)
    pairs = [pair for statement in block[: block.index(loop)] for pair in list_assigned(statement)]
    values = [value for target, value in pairs if isinstance(target, ast.Name) and target.id == name]
    return bool(values) and isinstance(values[-1], ast.Constant) and type(values[-1].value) is int


def list_assigned(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment with their values, also of ``epoch, best = 0, 0.0``."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return [(statement.target, statement.value)]
    if not isinstance(statement, ast.Assign):
        return []
    target, value = statement.targets[0], statement.value
    if len(statement.targets) > 1:
        return [(part, value) for part in statement.targets]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def find_range_call(loop: ast.For) -> ast.Call | None:
    """``range(…)`` in the head of a loop, also in a progress bar."""
    for node in ast.walk(loop.iter):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("range", "trange") and node.args:
            return node
    return None


def name_epoch(script: Script, loop: EpochLoop) -> str:
    """The variable that counts the epochs; ``_`` gets a name.

    Raises:
        AdoptError: Nothing counts them.
    """
    if isinstance(loop, ast.While):
        counted = find_counter(script, loop)
        if counted is None:
            help_ = "count the epochs with `for epoch in range(…)`"
            raise script.refuse(loop, "this `while` counts no epochs, so it cannot be resumed", help_)
        return counted.name
    target = loop.target
    if isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
        target = target.elts[0]
    if not isinstance(target, ast.Name):
        raise script.refuse(target, "this loop counts no epochs", "write `for epoch in range(…)`")
    if target.id != "_":
        return target.id
    name = script.module.memo.get((name_epoch, loop))
    if name is None:
        name = script.module.memo[name_epoch, loop] = script.new_name("epoch")
        script.replace(target, name, None, "the epoch is needed by its number")
    return str(name)


_NO_GRADIENT = ("no_grad", "inference_mode")
_OPTIMIZER = re.compile(r"opt|optim|optimi[sz]er")
_TRAINS = re.compile(r"(is_?)?(train|training)(_mode)?|backward|update")
_PHASE = re.compile(r"(val|valid|validation|test|testing|eval|evaluate|dev)", re.IGNORECASE)


def evaluates(script: Script, function: Function, call: ast.Call) -> bool:
    """Whether a call takes no step: it is under `no_grad`, has no optimizer, or says so by a word."""
    if is_without_gradient(script, call):
        return True
    for parameter, default in list_parameters(function):
        passed = script.argument(call, function, parameter.arg) or default
        if not isinstance(passed, ast.Constant):
            continue
        if passed.value is None and _OPTIMIZER.fullmatch(parameter.arg):
            return True
        if passed.value is False and _TRAINS.fullmatch(parameter.arg):
            return True
        if isinstance(passed.value, str) and _PHASE.fullmatch(passed.value):
            return True
    return False


def without_gradient(script: Script, node: ast.AST, top: ast.AST) -> bool:
    """Whether a node is under ``with torch.no_grad():`` inside of another."""
    for above, _ in script.module.ancestors(node):
        if above is top:
            return False
        if isinstance(above, ast.With):
            for item in above.items:
                if any(word in ast.unparse(item.context_expr) for word in _NO_GRADIENT):
                    return True
    return False


def is_without_gradient(script: Script, node: ast.AST) -> bool:
    """Whether a node is under ``no_grad``, or in a function that is decorated with it."""
    functions = (above for above, _ in script.module.ancestors(node) if isinstance(above, FUNCTIONS))
    return any(map(is_marked, functions)) or without_gradient(script, node, script.module.tree)


def is_marked(function: Function) -> bool:
    """Whether a function is decorated with ``no_grad``."""
    return any(word in ast.unparse(mark) for mark in function.decorator_list for word in _NO_GRADIENT)
