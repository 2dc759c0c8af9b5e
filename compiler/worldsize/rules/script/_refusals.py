"""Conditions under which a script stops by itself, and that hold with the numbers of the job."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.base.wording import shorten, show_number
from worldsize.scripts.guards import ends_program
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, last_name
from worldsize.scripts.numbers import COMPARISONS, calculate
from worldsize.scripts.program import Program


def check_script_refuses_numbers(context: Tree, program: Program) -> Iterator[Finding]:
    reached = read_reached(program)
    for module, (test, holds) in program.find(list_refusals):
        is_caught = any(isinstance(above, ast.Try) for above, _ in module.ancestors(test))
        if is_caught or not (reached.surely_runs(module, test) or reached.runs_in_group(module, test)):
            continue
        for part, must in _list_parts(test, holds):
            shown = _find_fault(program, module, part, must)
            if shown is not None:
                message = f"the script stops here: {shown}"
                help_ = "change the numbers of the job, or what the script expects"
                yield Finding(module.span(part), message, help_, related=program.related)
                break


def list_refusals(module: Module) -> list[tuple[ast.expr, bool]]:
    """The conditions that stop the script, each with the value that does: of `assert` it is false."""
    tests = [
        (node.test, True)
        for node in module.kinds.get(ast.If, ())
        if not node.orelse and _stops(node.body[-1])
    ]
    return tests + [(node.test, False) for node in module.kinds.get(ast.Assert, ())]


def _stops(statement: ast.stmt) -> bool:
    """Whether a statement ends the script, also by the `error` of a parser."""
    called = statement.value if isinstance(statement, ast.Expr) else None
    return ends_program(statement) or (isinstance(called, ast.Call) and last_name(called) == "error")


def _list_parts(test: ast.expr, holds: bool) -> Iterator[tuple[ast.expr, bool]]:
    """The parts of which one alone decides: of `or` that must be false, of `and` that must be true."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _list_parts(test.operand, not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or if holds else ast.And):
        for part in test.values:
            yield from _list_parts(part, holds)
    else:
        yield test, holds


def _find_fault(program: Program, module: Module, test: ast.expr, holds: bool) -> str | None:
    """What a comparison of numbers comes to, if it stops the script; a number is true unless it is zero."""
    text = shorten(ast.unparse(test))
    if not isinstance(test, ast.Compare):
        number = calculate(program, module, test) if isinstance(test, ast.BinOp) else None
        return f"`{text}` is {show_number(number)}" if number is not None and bool(number) is holds else None
    compare = COMPARISONS.get(type(test.ops[0])) if len(test.ops) == 1 else None
    left, right = (calculate(program, module, side) for side in (test.left, test.comparators[0]))
    if compare is None or left is None or right is None or compare(left, right) is not holds:
        return None
    return f"`{text}` is {str(holds).lower()}, with {show_number(left)} and {show_number(right)}"
