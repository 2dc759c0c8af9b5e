"""How processes join each other: no group, fixed addresses, and processes that start others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from worldsize.azureml.launch import STARTS_PROCESSES, Launch, find_gpu_launcher
from worldsize.base.problem import Finding, relate
from worldsize.base.span import Span
from worldsize.facts.library_calls import list_variables
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached, runs_in_job
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_mentions,
    find_passed,
    keyword_argument,
    variable_read,
    variable_writes,
)
from worldsize.scripts.program import Program
from worldsize.scripts.reached import Reached
from worldsize.scripts.settings import read_setting
from worldsize.scripts.values import evaluate

_GROUPS = ("init_process_group", "init_device_mesh", "init_rpc", "horovod", "mpi4py")
_LIBRARIES = ("init_distributed", "deepspeed", "accelerat", "apex", "fabric")  # they start one


def check_no_process_group(context: Context, program: Program) -> Iterator[Finding]:
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
    for module, call in program.called("DistributedDataParallel"):
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


_SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")


def check_spawn_in_every_process(context: Context, program: Program) -> Iterator[Finding]:
    launch = program.launch
    inner = find_gpu_launcher(context, launch)
    count = (inner.starts or 1) if inner is not None else program.per_instance
    if count < 2:
        return
    reached = read_reached(program)
    for module, call in program.called(*_SPAWNS):
        number = keyword_argument(call, "nprocs")
        if number is None or constant_value(number) == 1 or not _joins(reached, module, call):
            continue
        if reached.surely_runs(module, call):
            message = f"each of the {count} processes of an instance spawns `{ast.unparse(number)[:40]}` more"
            help_ = "write `process_count_per_instance: 1`, or call the function in place of `spawn`"
            related = relate(launch.processes.span, f"{count} processes per instance")
            yield Finding(module.span(call), message, help_, related=(*program.related, *related))


def _joins(reached: Reached, module: Module, call: ast.Call) -> bool:
    """Whether what is spawned joins a process group of its own."""
    worker = find_passed(call, 0, "fn")
    functions = reached.find(module, worker) if worker is not None else []
    return any(
        isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) == "init_process_group"
        for _, function in functions
        for node in ast.walk(function)
    )


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


def check_address_hard_coded(context: Context, program: Program) -> Iterator[Finding]:
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
    for name, value, span, _ in launch.list_variables():
        if name in _NAMES and value and not {"$", "`"} & set(value) and span is not None:
            yield _Fixed(span, name, value)
