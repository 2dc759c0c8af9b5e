"""Learning-rate schedules whose length is not that of the training."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.facts.library_calls import find_call
from worldsize.scripts.dividing import read_division
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import find_assigned, find_loop
from worldsize.scripts.module import Module, find_mentions, find_passed, name_variable
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import is_read_from
from worldsize.scripts.values import find_single

_EFFECTS = ("warms_up", "lowers_rate", "sets_schedule")
_STEPS = 3  # from a variable to the expression of its value


def check_schedule_ignores_processes(context: Tree, program: Program) -> Iterator[Finding]:
    if program.processes < 2 or not program.is_own_loop:
        return
    count = program.processes
    for module in program.modules:
        loaders = _list_divided(program, module)
        for name, call in module.calls if loaders else ():
            if find_call(name, *_EFFECTS) is None or not _steps_by_batch(module, call, loaders):
                continue
            lengths = (*call.args[1:], *(keyword.value for keyword in call.keywords))
            rows = next(
                filter(None, (_find_rows(program, module, length, loaders) for length in lengths)), None
            )
            if rows is not None:
                loader, counted = rows
                shown = f"`{ast.unparse(counted)}` counts the rows of all {count} processes"
                message = f"{shown}, so only 1/{count} of the schedule is used"
                help_ = f"write `len({loader})`, the steps that a process takes in an epoch"
                yield Finding(module.span(counted), message, help_, related=program.related)
                return


def _list_divided(program: Program, module: Module) -> dict[str, str]:
    """The loaders whose rows a sampler divides, each with the variable of all rows."""
    divided = {}
    for name, _, call in find_assigned(module, "DataLoader"):
        rows = name_variable(find_passed(call, 0, "dataset"))
        division = read_division(read_reached(program), module, call)
        if rows and division.verdict == "divided" and division.sampler is not None:
            divided[name] = rows
    return divided


def _steps_by_batch(module: Module, made: ast.Call, loaders: dict[str, str]) -> bool:
    """Whether a schedule takes a step for each batch of one of the loaders."""
    above = module.parents.get(made)
    targets = above.targets if isinstance(above, ast.Assign) else []
    names = {name_variable(target) for target in targets} - {""}
    for _, call in module.callers.get("step", ()):
        loop = find_loop(module, call)
        owner = name_variable(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if owner in names and isinstance(loop, ast.For) and loaders.keys() & set(find_mentions(loop.iter)):
            return True
    return False


def _find_rows(
    program: Program, module: Module, length: ast.AST, loaders: dict[str, str], depth: int = _STEPS
) -> tuple[str, ast.AST] | None:
    """The loader and the count of all its rows that a length is made of, without the number of processes."""
    code = read_reached(program)
    parts = list(ast.walk(length))
    if any(is_read_from(code, module, part, "world_size") for part in parts if isinstance(part, ast.expr)):
        return None
    for part in parts:
        counted = name_variable(part.args[0]) if isinstance(part, ast.Call) and _is_len(part) else ""
        loader = next((name for name, rows in loaders.items() if rows == counted), None)
        if loader is not None:
            return loader, part
        single = find_single(code, module, part) if isinstance(part, ast.Name) and depth else None
        found = _find_rows(program, *single, loaders, depth - 1) if single is not None else None
        if found is not None:
            return found
    return None


def _is_len(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "len" and len(call.args) == 1
