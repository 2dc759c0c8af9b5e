"""The address of rank 0, a rank or the number of processes is hard-coded, in the script or in the job."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from worldsize.azureml import fields
from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding
from worldsize.base.span import Span
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached, runs_in_job
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_mentions,
    keyword_argument,
    variable_writes,
)
from worldsize.scripts.program import Program
from worldsize.scripts.settings import read_setting
from worldsize.scripts.values import evaluate

_ADDRESSES = ("MASTER_ADDR", "init_method")
_COUNTS = ("WORLD_SIZE", "world_size", "nprocs", "num_replicas")
_RANKS = ("RANK", "LOCAL_RANK", "rank")  # of each process
_NAMES = frozenset({*_ADDRESSES, *_COUNTS, *_RANKS})
_OF_TESTS = re.compile(r"val|test|eval|dev", re.IGNORECASE)
_TCP = re.compile(r"tcp://[\w.-]+(?::\d+)?")


class _Fixed(NamedTuple):
    """A value that does not differ between processes."""

    span: Span
    name: str
    value: str


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.launch.kind not in ("pytorch", "mpi") or program.processes < 2:
        return
    for module in program.modules:
        for node, name, value in _find_in_script(program, module):
            if name in _NAMES and isinstance(value, str | int) and runs_in_job(program, module, node):
                yield from _judge(program, _Fixed(module.span(node), name, str(value)))
    for fixed in context.all_of(_find_in_job, program.launch):
        yield from _judge(program, fixed)


def _judge(program: Program, fixed: _Fixed) -> Iterator[Finding]:
    """Whether the value is wrong, with the instances and processes that the job starts."""
    span, name, value = fixed
    instances = program.launch.instances.value or 1
    if name in _ADDRESSES and instances > 1:
        message = f"`{name}` is always `{value}` here, but {instances} instances must find rank 0"
    elif name == "nprocs" and program.per_instance == 1:
        return  # one process of an instance starts those for its GPUs
    elif name in _COUNTS and value.isdigit() and int(value) != program.processes:
        message = f"`{name}` is always {value} here, but the job starts {program.processes} processes"
    elif name in _RANKS and value.isdigit() and (name != "LOCAL_RANK" or program.per_instance > 1):
        message = f"`{name}` is always {value} here, in each of the {program.processes} processes"
    else:
        return
    related = program.related if program.place is None or program.place.path != span.path else ()
    help_ = f"leave `{name}` out: Azure ML sets what `init_process_group` needs"
    if name == "num_replicas":
        help_ = "leave `num_replicas` and `rank` out: the sampler asks the process group"
    yield Finding(span, message, help_, related=related)


def _find_in_script(program: Program, module: Module) -> Iterator[tuple[ast.AST, str, object]]:
    """Where a file sets one of the names, and to what."""
    for name, written, statement in variable_writes(module):
        yield statement, name, evaluate(read_reached(program), module, written)
    for call in module.called("os.environ.update"):
        for one in call.keywords:
            yield one.value, one.arg or "", constant_value(one.value)
        for argument in call.args:
            pairs = zip(argument.keys, argument.values, strict=True) if isinstance(argument, ast.Dict) else ()
            for key, written in pairs:
                yield written, str(constant_value(key)), constant_value(written)
    yield from _find_in_calls(program, module)


def _find_in_calls(program: Program, module: Module) -> Iterator[tuple[ast.AST, str, object]]:
    for call in module.called("init_process_group"):
        for name, position in (("world_size", 3), ("rank", 4), ("init_method", 1)):
            node = keyword_argument(call, name) or next(iter(call.args[position : position + 1]), None)
            value = read_setting(program, module, node)
            if name != "init_method" or (isinstance(value, str) and _TCP.fullmatch(value)):
                yield node or call, name, value
    for call in module.called("DistributedSampler"):
        if any(map(_OF_TESTS.search, find_mentions(call.args[0] if call.args else call))):
            continue  # each rank may judge the model by all rows
        for name in ("num_replicas", "rank"):
            node = keyword_argument(call, name)
            yield node or call, name, evaluate(read_reached(program), module, node)
    for call in module.called("mp.spawn", "multiprocessing.spawn"):
        node = keyword_argument(call, "nprocs")
        yield node or call, "nprocs", constant_value(node)


def _find_in_job(_context: Context, launch: Launch) -> Iterator[_Fixed]:
    """The variables that the job or the command sets for all processes alike."""
    entries = fields.read_entries(launch.step.environment_variables)
    values = [(name, str(entry.value), entry.span) for name, entry in entries.items()]
    for command in launch.commands:
        values += [(name, value, launch.span(word)) for name, value, word in command.assignments]
    for name, value, span in values:
        if name in _NAMES and value and not {"$", "`"} & set(value) and span is not None:
            yield _Fixed(span, name, value)
