"""Whether a part of a script runs on every process, as far as its text shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from worldsize.rules.script._module import Module, mentions

_RANK = re.compile(
    r"rank|main_process|is_main|is_master|is_chief|is_writer|is_root|is_primary|is_leader|chief|worker_index"
    r"|task_index|task_id|task_type|worker_id|zero_first|world_size|distributed|master|primary|leader",
    re.IGNORECASE,
)
_WORKED_OUT = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.JoinedStr, ast.BinOp, ast.IfExp)
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def speaks_of_rank(module: Module, node: ast.AST | None) -> bool:
    """Whether an expression depends on which process this is, also through a variable."""
    if module.by_rank is None:
        module.by_rank = set(_derived(module))
    return any(_RANK.search(word) or word in module.by_rank for word in mentions(node))


def _derived(module: Module) -> Iterator[str]:
    """Variables that were worked out from a rank by comparison or as text."""
    for node in module.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, _WORKED_OUT):
            continue
        if any(_RANK.search(word) for word in mentions(node.value)):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def guarded(modules: Iterable[Module], module: Module, node: ast.AST, depth: int = 4) -> bool:
    """Whether something above a node, or above a place that calls its function, looks at the rank.

    A function that nothing calls by name may be called from anywhere, so it counts as guarded; a method
    also counts where its class is made under a guard.
    """
    names: list[str] = []
    for above, child in module.ancestors(node):
        if isinstance(above, ast.ClassDef) and names:
            names.append(above.name)
            break
        if names:
            continue
        if _asks(module, above) or _left_before(module, above, child):
            return True
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(above.name)
    if not names or depth == 0:
        return False
    calls = [
        (other, call) for other in modules for name in names for call in other.callers.get(name, ())[:20]
    ]
    return not calls or any(guarded(modules, other, call, depth - 1) for other, call in calls)


def _asks(module: Module, above: ast.AST) -> bool:
    """Whether a node decides by the rank what below it is done."""
    asked: list[ast.AST] = []
    if isinstance(above, ast.If | ast.IfExp | ast.While):
        asked = [above.test]
    elif isinstance(above, ast.BoolOp):
        asked = [above]
    elif isinstance(above, ast.With):
        asked = list(above.items)
    elif isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
        asked = list(above.decorator_list)
    return any(speaks_of_rank(module, one) for one in asked)


def _left_before(module: Module, above: ast.AST, child: ast.AST) -> bool:
    """Whether ``if rank != 0: return`` stands before a statement in the same block."""
    if above not in module.left_before:
        module.left_before[above] = set(_behind_exits(module, above))
    return child in module.left_before[above]


def _behind_exits(module: Module, above: ast.AST) -> Iterator[ast.AST]:
    for block in (getattr(above, "body", None), getattr(above, "orelse", None)):
        left = False
        for statement in block if isinstance(block, list) else ():
            if left:
                yield statement
            elif isinstance(statement, ast.If):
                left = speaks_of_rank(module, statement.test) and _leaves(statement.body)


def _leaves(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return any(word in ("exit", "_exit") for word in mentions(last.value.func))
    return isinstance(last, _ENDS)
