"""The rank that a process joins with is the same in several processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.launch import read_inner_launchers
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, keyword_argument, variable_writes
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import is_read_from


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    launch = program.launch
    if launch.kind not in ("pytorch", "mpi") or read_inner_launchers(context, launch):
        return
    instances, reached = launch.instances.value or 1, read_reached(program)
    for module in program.modules:
        for node in module.once(_list_ranks):
            if not reached.runs(module, node):
                continue
            if program.per_instance > 1 and is_read_from(reached, module, node, "node_rank"):
                what = f"is the same in the {program.per_instance} processes of an instance"
            elif instances > 1 and is_read_from(reached, module, node, "local_rank"):
                what = f"starts from 0 on each of the {instances} instances"
            else:
                continue
            message = f"the rank `{ast.unparse(node)[:60]}` {what}, but each process must have its own"
            variable = "OMPI_COMM_WORLD_RANK" if launch.kind == "mpi" else "RANK"
            help_ = f'write `int(os.environ["{variable}"])`'
            yield Finding(module.span(node), message, help_, related=program.related)
            return


def _list_ranks(module: Module) -> list[ast.expr]:
    """What a file gives as the rank of its process in the whole job."""
    takers = module.called("init_process_group", "DistributedSampler")
    ranks = [keyword_argument(call, "rank") for call in takers]
    ranks += [value for name, value, _ in variable_writes(module) if name == "RANK"]
    return [node for node in ranks if node is not None]
