"""Which processes run a part of a script: conditions on the rank, and what stands under them."""

from __future__ import annotations

import ast
import re
from itertools import dropwhile, islice
from typing import Literal

from worldsize.scripts.bindings import FUNCTIONS, Function
from worldsize.scripts.definitions import Definitions
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_mentions,
    is_environment,
    last_name,
    list_earlier,
    variable_read,
)
from worldsize.scripts.ranks import is_rank, list_rank_nodes, list_selecting_nodes
from worldsize.scripts.values import find_single, find_values

Side = Literal["first", "others"]
_OTHER: dict[Side, Side] = {"first": "others", "others": "first"}
_FIRST = re.compile(
    r"_*is_(?:\w+_)?(?:main|master|chief|root|primary|leader|zero|rank_?(?:zero|0))(?:_process|_rank|_node|_worker)?"
    r"|(?:main|master|chief|root|primary)_(?:process|rank|proc|worker)",
    re.IGNORECASE,
)
_ALONE = re.compile(r"initialized|available|distributed|world_size|\bddp\b|multi_?gpu", re.IGNORECASE)
_LOCAL = re.compile(r"local", re.IGNORECASE)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_SET = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"})
_COUNT = re.compile(r"world_?size$", re.IGNORECASE)
_ABOVE_ONE = ((ast.Gt, 1), (ast.NotEq, 1), (ast.GtE, 2))
_IS_RANK = ((ast.NotEq, -1), (ast.Gt, -1), (ast.GtE, 0))
_SHORT = 8  # nodes between a call and what decides about it


def read_side(code: Definitions, module: Module, test: ast.AST, depth: int = 4) -> Side | None:
    """The processes that a condition certainly selects, the first or the others; else None."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        side = (
            "others" if is_rank(code, module, test.operand) else read_side(code, module, test.operand, depth)
        )
        return _OTHER[side] if side else None
    if isinstance(test, ast.BoolOp):
        return _join_sides(code, module, test, depth)
    if isinstance(test, ast.Compare):
        return _compare(code, module, test) if len(test.ops) == 1 else None
    if isinstance(test, ast.expr) and is_rank(code, module, test):
        return "others"
    if _FIRST.fullmatch(last_name(test)):
        return "first"
    single = find_single(code, module, test) if isinstance(test, ast.Name | ast.Attribute) and depth else None
    return read_side(code, *single, depth - 1) if single is not None else None


def _join_sides(code: Definitions, module: Module, test: ast.BoolOp, depth: int) -> Side | None:
    """The side of ``rank == 0 and …``, or of ``rank == 0 or not dist.is_initialized()``."""
    sides = [(part, read_side(code, module, part, depth)) for part in test.values]
    chosen = {side for _, side in sides if side is not None}
    clear = isinstance(test.op, ast.And) or all(
        side is not None or any(map(_ALONE.search, find_mentions(part))) for part, side in sides
    )
    return chosen.pop() if len(chosen) == 1 and clear else None


def is_local(test: ast.AST) -> bool:
    """Whether the condition counts the processes of one instance."""
    return any(map(_LOCAL.search, find_mentions(test)))


def _compare(code: Definitions, module: Module, test: ast.Compare) -> Side | None:
    left, right, op = test.left, test.comparators[0], test.ops[0]
    if constant_value(left) == 0 and is_rank(code, module, right):
        left, right = right, left
    if not is_rank(code, module, left):
        return None
    if isinstance(op, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List | ast.Set):
        numbers = {-1 if isinstance(part, ast.UnaryOp) else constant_value(part) for part in right.elts}
        if numbers <= {0, -1}:
            return "first" if isinstance(op, ast.In) else "others"
    if constant_value(right) == 0 and type(constant_value(right)) is int:
        if isinstance(op, ast.Eq | ast.Is | ast.LtE):
            return "first"
        return "others" if isinstance(op, ast.NotEq | ast.IsNot | ast.Gt) else None
    if isinstance(op, ast.Lt) and constant_value(right) == 1:
        return "first"
    return None


def find_guards(code: Definitions, module: Module, node: ast.AST) -> list[tuple[Side, ast.AST]]:
    """The sides that reach a node inside its function, with their conditions."""
    guards: list[tuple[Side, ast.AST]] = []
    for above, child in module.ancestors(node):
        if isinstance(above, ast.If | ast.IfExp) and child is not above.test:
            side = code.once(read_side, module, above.test)
            if side is not None:
                in_body = child is above.body if isinstance(above, ast.IfExp) else child in above.body
                guards.append((side if in_body else _OTHER[side], above.test))
        guards += _find_left(code, module, above, child)
        if isinstance(above, FUNCTIONS):
            names = [last_name(decorator) for decorator in above.decorator_list]
            guards += [("first", above) for name in names if name in ("rank_zero_only", "on_main_process")]
            break
    return guards


def _find_left(
    code: Definitions, module: Module, above: ast.AST, child: ast.AST
) -> list[tuple[Side, ast.AST]]:
    """The sides that ``if rank != 0: return`` before a statement of the same block leaves."""
    return [
        (_OTHER[side], statement.test)
        for statement in list_earlier(above, child)
        if isinstance(statement, ast.If)
        and leaves_block(statement.body)
        and not statement.orelse
        and (side := code.once(read_side, module, statement.test)) is not None
    ]


def leaves_block(body: list[ast.stmt]) -> bool:
    """Whether what follows a block is not reached: it ends with ``return``, ``break`` or ``sys.exit()``."""
    return isinstance(body[-1], _LEAVES) or ends_program(body[-1])


def ends_program(last: ast.stmt) -> bool:
    """Whether a statement ends the program: it raises an error, or calls `exit`."""
    called = last.value if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) else None
    return isinstance(last, ast.Raise) or (called is not None and last_name(called) in ("exit", "_exit"))


def is_guarded_by_rank(modules: tuple[Module, ...], module: Module, node: ast.AST, depth: int = 4) -> bool:
    """Whether a node, or a call of its function, stands under something that depends on the rank.

    A function that nothing calls by name may be called from anywhere, so it counts as guarded; a method
    also counts where its class is made under a guard.
    """
    place = _find_decider(module, node)
    if isinstance(place, bool) or depth == 0:
        return place is True
    if any(_looks_at_rank(modules, module, decorator) for decorator in place.decorator_list):
        return True
    answers: dict[ast.AST, bool] = module.memo.setdefault((is_guarded_by_rank, modules, depth), {})
    if place not in answers:
        calls = _list_calls(modules, module, place)
        answers[place] = not calls or any(
            is_guarded_by_rank(modules, other, call, depth - 1) for other, call in calls
        )
    return answers[place]


def _looks_at_rank(modules: tuple[Module, ...], module: Module, decorator: ast.expr) -> bool:
    """Whether a decorator of the scripts treats its function by the rank."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    last = module.name_of(called).rpartition(".")[2]
    return any(
        function.name == last and function in other.once(list_rank_nodes)
        for other in modules
        for function in other.kinds.get(ast.FunctionDef, ())
    )


def _list_calls(
    modules: tuple[Module, ...], module: Module, function: Function
) -> list[tuple[Module, ast.Call]]:
    """The first calls of a function by its name, and of the innermost class around it."""
    classes = (above for above, _ in module.ancestors(function) if isinstance(above, ast.ClassDef))
    names = [function.name, *(class_.name for class_ in islice(classes, 1))]
    return [
        (other, call) for other in modules for name in names for _, call in other.callers.get(name, ())[:20]
    ]


def _find_decider(module: Module, node: ast.AST) -> bool | Function:
    """True if something above a node depends on the rank; else the function around it, else False."""
    asking, left, parents = module.once(_list_asking), module.once(_list_left), module.parents
    answers: dict[ast.AST, bool | Function] = module.memo.setdefault(_find_decider, {})
    path: list[ast.AST] = []
    result: bool | Function = False
    while node in parents:
        if node in answers:
            result = answers[node]
            break
        path.append(node)
        above = parents[node]
        if above in asking or node in left:
            result = True
            break
        if isinstance(above, FUNCTIONS):
            result = above
            break
        node = above
    if len(path) > _SHORT:  # as in a long chain of calls
        answers.update(dict.fromkeys(path, result))
    return result


def _list_asking(module: Module) -> set[ast.AST]:
    """All nodes that select by the rank what runs below them."""
    speaking, kinds = module.once(list_rank_nodes), module.kinds
    asking: set[ast.AST] = {node for node in kinds.get(ast.BoolOp, ()) if node in speaking}
    for kind in (ast.If, ast.IfExp, ast.While):
        asking.update(node for node in kinds.get(kind, ()) if node.test in speaking)
    headed = [(node, node.items) for node in kinds.get(ast.With, ())]
    headed += [(node, node.decorator_list) for kind in FUNCTIONS for node in kinds.get(kind, ())]
    asking.update(node for node, parts in headed if not speaking.isdisjoint(parts))
    return asking


def _list_left(module: Module) -> set[ast.AST]:
    """All statements before which ``if rank != 0: return`` stands in the same block."""
    speaking, selecting = module.once(list_rank_nodes), module.once(list_selecting_nodes)
    leaving = {
        node
        for node in module.kinds.get(ast.If, ())
        if node.test in speaking
        and leaves_block(node.body)
        # A check that stops all processes alike leaves none of them behind.
        and (node.test in selecting or not ends_program(node.body[-1]))
    }
    behind: set[ast.AST] = set()
    for above in {module.parents[node] for node in leaving}:
        for block in (getattr(above, "body", None), getattr(above, "orelse", None)):
            if isinstance(block, list):
                behind.update(islice(dropwhile(lambda node: node not in leaving, block), 1, None))
    return behind


def holds_in_group(code: Definitions, module: Module, test: ast.AST, depth: int = 3) -> bool:
    """Whether a condition certainly holds in every process of a job that sets the variables of torch."""
    if isinstance(test, ast.BoolOp):
        holds = [holds_in_group(code, module, part, depth) for part in test.values]
        return all(holds) if isinstance(test.op, ast.And) else any(holds)
    if isinstance(test, ast.Compare):
        return len(test.ops) == 1 and _holds_comparison(module, test)
    if not isinstance(test, ast.Name | ast.Attribute) or not depth:
        return False
    values = find_values(code, module, test)
    in_group = [value for value in values if not _is_alone(value[1])]
    return bool(in_group) and all(holds_in_group(code, *value, depth - 1) for value in in_group)


def _is_alone(node: ast.AST) -> bool:
    """Whether a value is that of a script which runs by itself, as in ``ddp, rank = False, 0``."""
    return type(constant_value(node)) in (bool, int) and not constant_value(node)


def _holds_comparison(module: Module, test: ast.Compare) -> bool:
    op, left, right = test.ops[0], test.left, test.comparators[0]
    if isinstance(op, ast.In):
        return constant_value(left) in _SET and is_environment(right)
    if isinstance(left, ast.Call) and module.name_of(left.func) == "int" and len(left.args) == 1:
        left = left.args[0]
    variable = variable_read(left)
    if isinstance(op, ast.IsNot) and isinstance(right, ast.Constant) and right.value is None:
        return variable in _SET
    number = constant_value(right.operand if isinstance(right, ast.UnaryOp) else right)
    if type(number) is not int:
        return False
    number = -number if isinstance(right, ast.UnaryOp) else number
    if any(isinstance(op, kind) and number == least for kind, least in _IS_RANK):
        return variable in ("RANK", "LOCAL_RANK")
    if not any(isinstance(op, kind) and number == least for kind, least in _ABOVE_ONE):
        return False
    is_count = _COUNT.search(last_name(left)) is not None
    return variable == "WORLD_SIZE" or (
        is_count and ("WORLD_SIZE" in module.text or "get_world_size" in module.text)
    )
