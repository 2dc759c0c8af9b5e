"""The script hard-codes the address of rank 0 or the number of processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.script._module import (
    Module,
    constant_value,
    is_conditional,
    keyword_argument,
    variable_writes,
)
from worldsize.rules.script._program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    instances = program.launch.instances.value or 1
    if program.launch.kind not in ("pytorch", "mpi") or program.processes < 2:
        return
    for module in program.modules:
        for node, name, value in _fixed(module):
            if is_conditional(module, node) or (name in ("MASTER_ADDR", "init_method") and instances < 2):
                continue
            if name in ("WORLD_SIZE", "world_size") and int(value) == program.processes:
                continue
            if name in ("MASTER_ADDR", "init_method"):
                message = f"`{name}` is always `{value}` here, but {instances} instances must find rank 0"
            else:
                message = f"`{name}` is always {value} here, but the job starts {program.processes} processes"
            help_ = f"leave `{name}` out: Azure ML sets what `init_process_group` needs"
            yield Finding(module.span(node), message, help_, related=program.related)


def _fixed(module: Module) -> Iterator[tuple[ast.AST, str, str]]:
    for name, written, statement in variable_writes(module):
        value = constant_value(written)
        if (name == "MASTER_ADDR" and isinstance(value, str)) or (
            name == "WORLD_SIZE" and str(value).isdigit()
        ):
            yield statement, name, str(value)
    for call in module.called("init_process_group"):
        size, method = (
            constant_value(keyword_argument(call, "world_size")),
            constant_value(keyword_argument(call, "init_method")),
        )
        if type(size) is int:
            yield call, "world_size", str(size)
        if isinstance(method, str) and method.startswith(("tcp://localhost", "tcp://127.")):
            yield call, "init_method", method
    for call in module.called("mp.spawn", "multiprocessing.spawn"):
        count = constant_value(keyword_argument(call, "nprocs"))
        if type(count) is int:
            yield call, "nprocs", str(count)
