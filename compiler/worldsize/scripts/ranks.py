"""Whether a part of a script runs on every process, as far as its text shows."""

from __future__ import annotations

import ast
import re
from itertools import dropwhile, islice
from typing import TypeAlias

from worldsize.scripts.module import Module, variable_read

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
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SHORT = 8  # nodes between a call and what decides about it
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def mentions_rank(module: Module, node: ast.AST | None) -> bool:
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
    derived |= {
        getattr(target, "attr", getattr(target, "id", ""))
        for node in module.kinds.get(ast.Assign, ())
        if node.value in speaking and _is_read(module, node.value)
        for target in node.targets
    } - {""}
    return speaking | module.holding(derived.__contains__) if derived else speaking


def _is_read(module: Module, value: ast.expr) -> bool:
    """Whether a value is the rank itself: ``int(os.environ["LOCAL_RANK"])``, ``dist.get_rank()``."""
    if isinstance(value, ast.Call) and module.name_of(value.func) == "int" and len(value.args) == 1:
        value = value.args[0]
    name = module.name_of(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
    return "RANK" in (variable_read(value) or "") or name in ("get_rank", "local_rank", "rank")


def is_guarded_by_rank(modules: tuple[Module, ...], module: Module, node: ast.AST, depth: int = 4) -> bool:
    """Whether something above a node, or above a place that calls its function, looks at the rank.

    A function that nothing calls by name may be called from anywhere, so it counts as guarded; a method
    also counts where its class is made under a guard.
    """
    place = _decider(module, node)
    if isinstance(place, bool) or depth == 0:
        return place is True
    if any(_looks_at_rank(modules, module, each) for each in place.decorator_list):
        return True
    known: dict[ast.AST, bool] = module.memo.setdefault((is_guarded_by_rank, modules, depth), {})
    if place not in known:
        calls = _calls(modules, module, place)
        known[place] = not calls or any(
            is_guarded_by_rank(modules, other, call, depth - 1) for other, call in calls
        )
    return known[place]


def _looks_at_rank(modules: tuple[Module, ...], module: Module, decorator: ast.expr) -> bool:
    """Whether a decorator of the scripts decides by the rank what it does with its function."""
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    last = module.name_of(name).rpartition(".")[2]
    return any(
        function.name == last and function in other.once(_speaking)
        for other in modules
        for function in other.kinds.get(ast.FunctionDef, ())
    )


def _calls(modules: tuple[Module, ...], module: Module, function: _Function) -> list[tuple[Module, ast.Call]]:
    """The first calls of a function by its name, and of the innermost class around it."""
    names = [function.name]
    for above, _ in module.ancestors(function):
        if isinstance(above, ast.ClassDef):
            names.append(above.name)
            break
    return [
        (other, call) for other in modules for name in names for _, call in other.callers.get(name, ())[:20]
    ]


def _decider(module: Module, node: ast.AST) -> bool | _Function:
    """True where something above a node looks at the rank, else the function around it, else False."""
    asking, left, parents = module.once(_asking), module.once(_left_behind), module.parents
    known: dict[ast.AST, bool | _Function] = module.memo.setdefault(_decider, {})
    path: list[ast.AST] = []
    result: bool | _Function = False
    while node in parents:
        if node in known:
            result = known[node]
            break
        path.append(node)
        above = parents[node]
        if above in asking or node in left:
            result = True
            break
        if isinstance(above, _FUNCTIONS):
            result = above
            break
        node = above
    if len(path) > _SHORT:  # as in a long chain of calls
        known.update(dict.fromkeys(path, result))
    return result


def _asking(module: Module) -> set[ast.AST]:
    """All nodes that decide by the rank what below them is done."""
    speaking, kinds = module.once(_speaking), module.kinds
    asking: set[ast.AST] = {node for node in kinds.get(ast.BoolOp, ()) if node in speaking}
    for kind in _CONDITIONS:
        asking.update(node for node in kinds.get(kind, ()) if node.test in speaking)
    for kind, parts in _HEADED:
        asking.update(node for node in kinds.get(kind, ()) if not speaking.isdisjoint(getattr(node, parts)))
    return asking


def _left_behind(module: Module) -> set[ast.AST]:
    """All statements before which ``if rank != 0: return`` stands in the same block."""
    speaking = module.once(_speaking)
    exits = module.holding({"exit", "_exit"}.__contains__) if speaking else set()
    leaving = {
        node for node in module.kinds.get(ast.If, ()) if node.test in speaking and _leaves(node.body, exits)
    }
    behind: set[ast.AST] = set()
    for above in {module.parents[node] for node in leaving}:
        for block in (getattr(above, "body", None), getattr(above, "orelse", None)):
            if isinstance(block, list):
                behind.update(islice(dropwhile(lambda node: node not in leaving, block), 1, None))
    return behind


def _leaves(body: list[ast.stmt], exits: set[ast.AST]) -> bool:
    last = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return last.value.func in exits
    return isinstance(last, _ENDS)
