"""What a rank is: its names in scripts, the variables and functions that give it, and what depends on it."""

from __future__ import annotations

import ast
import re

from worldsize.facts import library_calls
from worldsize.scripts.definitions import Definitions, Place
from worldsize.scripts.module import Module, constant_value, is_conditional, last_name, variable_read
from worldsize.scripts.values import find_values

# Words of what differs from process to process, or speaks of processes: where one stands, rules are silent.
_DIFFERS = (
    r"rank|main_process|is_main|is_master|is_chief|is_writer|is_root|is_primary|is_leader|chief|worker_index"
    r"|task_index|task_id|task_type|worker_id|zero_first|master|primary|leader"
)
_SPEAKS = re.compile(rf"{_DIFFERS}|world_size|distributed", re.IGNORECASE)
_SELECTS = re.compile(_DIFFERS, re.IGNORECASE)
_NUMBER = re.compile(r"(?:^|_|my)rank$|process_index$", re.IGNORECASE)
_OTHER_NUMBERS = re.compile(r"lora|matrix|low_rank|full|num|max|total", re.IGNORECASE)
_WORKED_OUT = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.JoinedStr, ast.BinOp, ast.IfExp)
GLOBAL_NAMES = ("rank", "global_rank", "world_rank", "process_rank")  # of variables, the most usual first
LOCAL_NAMES = ("LOCAL_RANK", "local_rank")


def mentions_rank(module: Module, node: ast.AST | None) -> bool:
    """Whether an expression depends on the rank, also through a variable."""
    return node in module.once(list_rank_nodes)


def list_rank_nodes(module: Module) -> set[ast.AST]:
    """All nodes of a file that depend on the rank; for :meth:`Module.once`."""
    speaking = module.holding(_SPEAKS.search)
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
        if node.value in speaking and _reads_rank(module, node.value)
        for target in node.targets
    } - {""}
    speaking |= module.around(_list_indices(module, speaking))
    return speaking | module.holding(derived.__contains__) if derived else speaking


def _list_indices(module: Module, speaking: set[ast.AST]) -> list[ast.AST]:
    """Where a file asks for the number of a device that it chose by the rank: `device.index`."""
    devices = {
        target.id
        for node in module.kinds.get(ast.Assign, ())
        if node.value in speaking and isinstance(node.value, ast.Call) and last_name(node.value) == "device"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        node
        for node in module.kinds.get(ast.Attribute, ())
        if node.attr == "index" and isinstance(node.value, ast.Name) and node.value.id in devices
    ]


def list_selecting_nodes(module: Module) -> set[ast.AST]:
    """The nodes that speak of one process among others, not only of how many there are; for `Module.once`."""
    return module.holding(_SELECTS.search)


def _reads_rank(module: Module, value: ast.expr) -> bool:
    """Whether a value is the rank itself: ``int(os.environ["LOCAL_RANK"])``, ``dist.get_rank()``."""
    read = open_conversion(module, value)
    name = module.name_of(read.func).rpartition(".")[2] if isinstance(read, ast.Call) else ""
    return "RANK" in (variable_read(read) or "") or name in ("get_rank", "local_rank", "rank")


def open_conversion(module: Module, node: ast.AST) -> ast.AST:
    """The argument of ``int(…)`` or ``str(…)``; any other expression unchanged."""
    if isinstance(node, ast.Call) and module.name_of(node.func) in ("int", "str") and len(node.args) == 1:
        return node.args[0]
    return node


def is_rank(code: Definitions, module: Module, node: ast.AST, depth: int = 3) -> bool:
    """Whether an expression is the rank of the process, in the job or on its instance."""
    node = open_conversion(module, node)
    variables = library_calls.list_variables("global_rank") | library_calls.list_variables("local_rank")
    if variable_read(node) in variables:
        return True
    name = last_name(node)
    if _NUMBER.search(name) and not _OTHER_NUMBERS.search(name):
        return True
    values = find_values(code, module, node) if isinstance(node, ast.Name | ast.Attribute) and depth else []
    return len(values) == 1 and is_rank(code, *values[0], depth - 1)


def is_read_from(code: Definitions, module: Module, node: ast.AST, gives: str, depth: int = 5) -> bool:
    """Whether an expression certainly gives one kind of rank, such as ``local_rank``.

    ``gives`` is a kind of ``facts/launch_variables.csv`` and an effect of ``facts/library_calls.csv``.
    """
    node = open_conversion(module, node)
    if variable_read(node) in library_calls.list_variables(gives):
        return True
    if isinstance(node, ast.Call) and library_calls.find_call(module.name_of(node.func), gives):
        return True
    answers: dict[tuple[ast.AST, str], bool] = code.memo.setdefault(is_read_from, {})
    if (node, gives) not in answers:
        answers[node, gives] = False  # where it is set to itself
        answers[node, gives] = depth > 0 and _are_read_from(
            code, find_values(code, module, node), gives, depth
        )
    return answers[node, gives]


def _are_read_from(code: Definitions, values: list[Place], gives: str, depth: int) -> bool:
    others = [value for value in values if not _is_number(value[1])]  # one is for a script that runs alone
    read = all(is_read_from(code, *value, gives, depth - 1) for value in others)
    return bool(others) and read and not _is_overwritten(values)


def _is_number(node: ast.AST) -> bool:
    return type(constant_value(node.operand if isinstance(node, ast.UnaryOp) else node)) is int


def _is_overwritten(values: list[Place]) -> bool:
    """Whether a constant number is set last, unconditionally."""
    module, last = max(values, key=lambda place: getattr(place[1], "lineno", 0))
    return _is_number(last) and not is_conditional(module, last)
