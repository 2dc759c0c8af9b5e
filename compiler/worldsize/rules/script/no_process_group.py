"""Several processes train without joining a process group."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.launch import STARTS_PROCESSES
from worldsize.base.problem import Finding
from worldsize.facts.library_calls import list_variables
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, variable_read
from worldsize.scripts.program import Program

_GROUPS = ("init_process_group", "init_device_mesh", "init_rpc", "horovod", "mpi4py")
_LIBRARIES = ("init_distributed", "deepspeed", "accelerat", "apex", "fabric")  # they start one


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if not is_without_group(program):
        yield from _check_wrapped(program)
        return
    for module in program.modules:
        for name, level, statement in module.imports:
            if level == 0 and name.partition(".")[0] == "torch":
                message = "several processes train here, but nothing calls `init_process_group`"
                help_ = "call `init_process_group()` and wrap the model in `DistributedDataParallel`"
                yield Finding(module.span(statement), message, help_, related=program.related)
                return


def _check_wrapped(program: Program) -> Iterator[Finding]:
    """A model that is wrapped for a group that nothing starts, though the script knows its rank."""
    if program.kind not in STARTS_PROCESSES or not program.complete or program.says(*_GROUPS, *_LIBRARIES):
        return
    for module in program.modules:
        for call in module.called("DistributedDataParallel"):
            if program.processes > 1 and read_reached(program).runs(module, call):
                message = (
                    "`DistributedDataParallel` needs a process group, and nothing calls `init_process_group`"
                )
                help_ = "call `torch.distributed.init_process_group()` before it"
                yield Finding(module.span(call), message, help_, related=program.related)
                return


def is_without_group(program: Program) -> bool:
    """Whether several processes train, and none of them joins the others."""
    if program.kind not in STARTS_PROCESSES or program.processes < 2 or not program.complete:
        return False
    if program.says(*_GROUPS):
        return False
    return program.says(".backward(") and not any(module.once(_uses_rank) for module in program.modules)


def _uses_rank(module: Module) -> bool:
    """Whether the rank chooses what a process trains on, so that each has a model of its own on purpose."""
    return any(
        variable_read(node) in list_variables("global_rank")
        and not isinstance(module.parents.get(_outermost(module, node)), ast.Compare)
        for kind in (ast.Call, ast.Subscript)
        for node in module.kinds.get(kind, ())
    )


def _outermost(module: Module, node: ast.AST) -> ast.AST:
    """The node, or ``int(…)`` around it."""
    above = module.parents.get(node)
    return above if isinstance(above, ast.Call) and module.name_of(above.func) == "int" else node
