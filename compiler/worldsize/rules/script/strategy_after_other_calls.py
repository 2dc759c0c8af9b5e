"""`MultiWorkerMirroredStrategy` is created after other TensorFlow calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.module import Module
from worldsize.scripts.program import Program

_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_STARTS = re.compile(
    r"^tensorflow\.(?:constant|Variable|zeros|ones|range|cast|reshape|convert_to_tensor|stack|concat|eye|fill)$"
    r"|^tensorflow\.random\.(?:normal|uniform|shuffle)$|\.data\.Dataset\.|\.(?:Sequential|list_logical_devices)$"
    r"|\.layers\.|\.keras\.Model$"
)


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    for module in program.modules:
        early_call = module.once(_too_late)
        if early_call is not None:
            call, early = early_call
            name = module.name_of(early.func).replace("tensorflow.", "tf.")
            message = f"`{name}` starts TensorFlow before `MultiWorkerMirroredStrategy` is created"
            line = module.span(call).line
            help_ = f"move the strategy of line {line} before it"
            yield Finding(module.span(early), message, help_, related=program.related)
            return


def _too_late(module: Module) -> tuple[ast.Call, ast.Call] | None:
    """The first strategy that is made behind a call that starts TensorFlow, and that call."""
    strategies = module.called("MultiWorkerMirroredStrategy")
    starting = {call for name, call in module.calls if _starts(name)} if strategies else set()
    holding = module.around(starting)
    early: dict[
        ast.AST, dict[ast.AST, ast.stmt]
    ] = {}  # by a block's owner and statement, the first before it
    for strategy in strategies if starting else ():
        for above, child in module.ancestors(strategy):
            if above not in early:
                early[above] = dict(_behind(above, holding))
            if child in early[above]:
                first = early[above][child]
                return strategy, next(node for node in ast.walk(first) if node in starting)
    return None


def _behind(above: ast.AST, holding: set[ast.AST]) -> Iterator[tuple[ast.AST, ast.stmt]]:
    """The statements of a block behind the first that starts TensorFlow, each with that one."""
    body = getattr(above, "body", None)
    first: ast.stmt | None = None
    for statement in body if isinstance(body, list) else ():
        if first is not None:
            yield statement, first
        elif statement in holding and not isinstance(statement, _DEFINES):
            first = statement


def _starts(name: str) -> bool:
    return name.startswith(("tensorflow.", "keras.")) and _STARTS.search(name) is not None
