"""Calls of a function that trains which only evaluate: ``run_epoch(model, test_loader, optimizer=None)``."""

from __future__ import annotations

import ast
import re

from worldsize.adopting.source.script import Function, Script
from worldsize.adopting.source.tracing import Tracer, is_without_gradient

_OPTIMIZER = re.compile(r"opt|optim|optimi[sz]er")
_TRAINS = re.compile(r"(is_?)?(train|training)(_mode)?|backward|update")
_PHASE = re.compile(r"(val|valid|validation|test|testing|eval|evaluate|dev)", re.IGNORECASE)


def evaluates(script: Script, tracer: Tracer, function: Function, call: ast.Call) -> bool:
    """Whether a call takes no step: it is under `no_grad`, has no optimizer, or says so by a word."""
    if is_without_gradient(script, call):
        return True
    for parameter in (*function.args.args, *function.args.kwonlyargs):
        given = tracer.argument(call, function, parameter.arg) or tracer.default(function, parameter.arg)
        if not isinstance(given, ast.Constant):
            continue
        if given.value is None and _OPTIMIZER.fullmatch(parameter.arg):
            return True
        if given.value is False and _TRAINS.fullmatch(parameter.arg):
            return True
        if isinstance(given.value, str) and _PHASE.fullmatch(given.value):
            return True
    return False
