"""`NODE_RANK` is set from `OMPI_COMM_WORLD_RANK`, with several processes per instance."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.module import Module, variable_read
from worldsize.scripts.program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.launch.kind != "mpi" or program.per_instance < 2:
        return
    for module in program.modules:
        for node in module.once(_find_assignments):
            count = program.per_instance
            message = f"`OMPI_COMM_WORLD_RANK` counts processes, {count} on each instance, not instances"
            help_ = "divide it by `OMPI_COMM_WORLD_LOCAL_SIZE` with `//`"
            yield Finding(module.span(node), message, help_, related=program.related)


def _find_assignments(module: Module) -> list[ast.Assign]:
    """Assignments of the one to a name of the other, without a division."""
    kinds = module.kinds
    named = module.holding(lambda word: word.upper() == "NODE_RANK")
    reads = (*kinds.get(ast.Subscript, ()), *kinds.get(ast.Call, ())) if named else ()
    read = module.around(node for node in reads if variable_read(node) == "OMPI_COMM_WORLD_RANK")
    divided = module.around(kinds.get(ast.BinOp, ())) if read else set()
    return [
        node
        for node in kinds.get(ast.Assign, ())
        if node.value in read and node.value not in divided and not named.isdisjoint(node.targets)
    ]
