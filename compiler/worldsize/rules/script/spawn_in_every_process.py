"""`torch.multiprocessing.spawn` in a script that Azure ML already starts once for each GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.command_launchers import MPI
from worldsize.azureml.launch import read_inner_launchers
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, constant_value, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.reached import Reached

_SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    launch = program.launch
    inner = next(
        (launcher for launcher in read_inner_launchers(context, launch) if launcher.name not in MPI), None
    )
    count = (inner.starts or 1) if inner is not None else program.per_instance
    if count < 2:
        return
    reached = read_reached(program)
    for module in program.modules:
        for call in module.called(*_SPAWNS):
            number = keyword_argument(call, "nprocs")
            if number is None or constant_value(number) == 1 or not _joins(reached, module, call):
                continue
            if reached.surely_runs(module, call):
                message = (
                    f"each of the {count} processes of an instance spawns `{ast.unparse(number)[:40]}` more"
                )
                help_ = "write `process_count_per_instance: 1`, or call the function in place of `spawn`"
                where = launch.processes.span
                related = (Related(where, f"{count} processes per instance"),) if where is not None else ()
                yield Finding(module.span(call), message, help_, related=(*program.related, *related))


def _joins(reached: Reached, module: Module, call: ast.Call) -> bool:
    """Whether what is spawned joins a process group of its own."""
    worker = call.args[0] if call.args else keyword_argument(call, "fn")
    functions = reached.find(module, worker) if worker is not None else []
    return any(
        isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) == "init_process_group"
        for _, function in functions
        for node in ast.walk(function)
    )
