"""Whether a part of a script runs on every process, as far as its text shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice

from worldsize.rules.script._module import Module, mentions

_RANK = re.compile(
    r"rank|main_process|is_main|is_master|is_chief|is_writer|is_root|is_primary|is_leader|chief|worker_index"
    r"|task_index|task_id|task_type|worker_id|zero_first|world_size|distributed|master|primary|leader",
    re.IGNORECASE,
)
_WORKED_OUT = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.JoinedStr, ast.BinOp, ast.IfExp)
_CONDITIONS: tuple[type[ast.AST], ...] = (ast.If, ast.IfExp, ast.While)
_HEADED: tuple[tuple[type[ast.AST], str], ...] = (
    (ast.With, "items"),
    (ast.FunctionDef, "decorator_list"),
    (ast.AsyncFunctionDef, "decorator_list"),
)
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def speaks_of_rank(module: Module, node: ast.AST | None) -> bool:
    """Whether an expression depends on which process this is, also through a variable."""
    return node in module.once(_speaking)


def _speaking(module: Module) -> set[ast.AST]:
    """All nodes that depend on the rank."""
    speaking = module.holding(_RANK.search)
    derived = {
        target.id
        for node in module.kinds.get(ast.Assign, ())
        if node.value in speaking and isinstance(node.value, _WORKED_OUT)  # by comparison or as text
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return speaking | module.holding(derived.__contains__) if derived else speaking


def guarded(modules: tuple[Module, ...], module: Module, node: ast.AST, depth: int = 4) -> bool:
    """Whether something above a node, or above a place that calls its function, looks at the rank.

    A function that nothing calls by name may be called from anywhere, so it counts as guarded; a method
    also counts where its class is made under a guard.
    """
    known: dict[ast.AST, bool] = module.memo.setdefault((guarded, modules, depth), {})
    path: list[ast.AST] = []
    result = False
    for above, child in module.ancestors(node):
        if child in known:
            result = known[child]
            break
        path.append(child)
        if _asks(module, above) or _left_before(module, above, child):
            result = True
            break
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            result = depth > 0 and _called_guarded(modules, module, above, depth)
            break
    known.update(dict.fromkeys(path, result))
    return result


def _called_guarded(
    modules: tuple[Module, ...],
    module: Module,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    depth: int,
) -> bool:
    around = (above.name for above, _ in module.ancestors(function) if isinstance(above, ast.ClassDef))
    names = [function.name, *islice(around, 1)]
    calls = [
        (other, call) for other in modules for name in names for _, call in other.callers.get(name, ())[:20]
    ]
    return not calls or any(guarded(modules, other, call, depth - 1) for other, call in calls)


def _asks(module: Module, above: ast.AST) -> bool:
    """Whether a node decides by the rank what below it is done."""
    return above in module.once(_asking)


def _asking(module: Module) -> set[ast.AST]:
    """All nodes that decide by the rank."""
    speaking, kinds = module.once(_speaking), module.kinds
    asking: set[ast.AST] = {node for node in kinds.get(ast.BoolOp, ()) if node in speaking}
    for kind in _CONDITIONS:
        asking.update(node for node in kinds.get(kind, ()) if node.test in speaking)
    for kind, parts in _HEADED:
        asking.update(node for node in kinds.get(kind, ()) if not speaking.isdisjoint(getattr(node, parts)))
    return asking


def _left_before(module: Module, above: ast.AST, child: ast.AST) -> bool:
    """Whether ``if rank != 0: return`` stands before a statement in the same block."""
    known: dict[ast.AST, set[ast.AST]] = module.memo.setdefault(_left_before, {})
    if above not in known:
        known[above] = set(_behind_exits(module, above))
    return child in known[above]


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
