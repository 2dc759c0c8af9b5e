"""What only evaluates: under ``no_grad``, or ``run_epoch(model, test_loader, optimizer=None)``."""

from __future__ import annotations

import ast
import re

from worldsize.adopting.source.script import Script
from worldsize.scripts.bindings import FUNCTIONS, Function, list_parameters

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
