"""How processes join each other: whether they do, by which launcher and address, and what they start."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from worldsize.azureml import fields
from worldsize.azureml.command_launchers import MPI
from worldsize.azureml.launch import STARTS_PROCESSES, Launch, find_gpu_launcher, find_inner_launchers
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Related, relate
from worldsize.base.span import Span
from worldsize.facts.library_calls import find_setter, list_last_names, list_variables
from worldsize.scripts.bindings import find_scope
from worldsize.scripts.edits import HOROVOD
from worldsize.scripts.interface.read import read_reached, runs_in_job
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_mentions,
    find_passed,
    is_environment,
    keyword_argument,
    last_name,
    variable_reads,
    variable_writes,
)
from worldsize.scripts.program import Program
from worldsize.scripts.reached import Reached
from worldsize.scripts.settings import read_setting
from worldsize.scripts.values import evaluate

_GROUPS = ("init_process_group", "init_device_mesh", "init_rpc", "horovod", "mpi4py")
_LIBRARIES = ("init_distributed", "deepspeed", "accelerat", "apex", "fabric")  # they start one


def check_no_process_group(context: Tree, program: Program) -> Iterator[Finding]:
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
    reads = [node for name, node in variable_reads(module) if name in list_variables("global_rank")]
    return any(not isinstance(module.parents.get(_outermost(module, node)), ast.Compare) for node in reads)


def _outermost(module: Module, node: ast.AST) -> ast.AST:
    """The node, or ``int(…)`` around it."""
    above = module.parents.get(node)
    return above if isinstance(above, ast.Call) and module.name_of(above.func) == "int" else node


_SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")


def check_spawn_in_every_process(context: Tree, program: Program) -> Iterator[Finding]:
    launch = program.launch
    inner = find_gpu_launcher(launch)
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


def check_address_hard_coded(context: Tree, program: Program) -> Iterator[Finding]:
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
            node = find_passed(call, position, name)
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


def _find_in_job(_context: Tree, launch: Launch) -> Iterator[_Fixed]:
    """The variables that the job or the command sets for all processes alike."""
    for name, value, span, _ in launch.list_variables():
        if name in _NAMES and value and not {"$", "`"} & set(value) and span is not None:
            yield _Fixed(span, name, value)


_HOROVOD = ("hvd.init", *(f"{package}.init" for package in HOROVOD))
_SET_BY_HAND = {"mpi": "HOROVOD_RANK", "tensorflow": "TF_CONFIG"}
_OTHER_WAYS = ("MASTER_ADDR", "file://", "tcp://", "TCPStore", "FileStore", "HashStore")
_SETS_ALL = ("update", "setdefault", "putenv", "load_dotenv")


class _Need(NamedTuple):
    """The need of one place of the script, and who provides it: `pytorch`, `mpi` or `tensorflow`."""

    module: Module
    node: ast.AST
    what: str
    kind: str
    alone: bool = False  # one process does without


def check_script_needs_other_distribution(context: Tree, program: Program) -> Iterator[Finding]:
    launch = program.launch
    kind = launch.kind
    if kind not in ("pytorch", "mpi", "tensorflow", None) or (kind is None and not launch.step.name):
        return
    inner = {inner.name in MPI for inner in find_inner_launchers(launch)}
    provided = {kind, *(("mpi" if mpi else "pytorch") for mpi in inner)}
    reached = read_reached(program)
    in_group = program.kind == "pytorch" and program.processes > 1
    runs = reached.runs_in_group if in_group else reached.surely_runs
    said: set[str] = set()
    for need in _find_needs(context, program):
        if need.kind in provided or need.kind in said or (need.alone and program.processes < 2):
            continue
        if not runs(need.module, need.node):
            continue
        said.add(need.kind)
        where = f"in a job of type `{kind}`" if kind else "without `distribution`"
        message = f"{need.what}, which Azure ML does not set {where}"
        related = program.related
        if launch.kind_span is not None:
            related = (*related, Related(launch.kind_span, "the distribution of the job"))
        to_write = f"write `distribution: {{type: {need.kind}}}` with the number of processes"
        help_ = f"{to_write}, or change the script"
        if need.kind == "slurm":
            help_ = "read `RANK`, `LOCAL_RANK` and `WORLD_SIZE`, which a job of type `pytorch` sets"
        span = need.module.span(need.node)
        if _overrides(launch, need.kind) and launch.kind_span is not None:
            span, related = launch.kind_span, (Related(span, f"{need.what} here"),)
            message = f"the component is for `{need.kind}`, but this step makes it `{kind}`: {message}"
        yield Finding(span, message, help_, related=related)


def _overrides(launch: Launch, kind: str) -> bool:
    """Whether the step replaces a `distribution` of its component that would be right."""
    component = launch.step.component
    view = fields.read_distribution(component.distribution if component is not None else None)
    return launch.step.distribution is not None and view is not None and view.kind == kind


def _find_needs(context: Tree, program: Program) -> Iterator[_Need]:
    written = _find_written(context, program)
    if written is None:
        return
    starts = program.complete and not program.says(*_OTHER_WAYS) and not {"RANK", "WORLD_SIZE"} & written
    asks = _asks_only_for_others(program)
    for module in program.modules:
        yield from _find_reads(module, written, asks=asks)
        for call in module.called("torch.distributed.init_process_group") if starts else ():
            if _uses_environment(call):
                what = "`init_process_group` reads `RANK`, `WORLD_SIZE` and `MASTER_ADDR`"
                yield _Need(module, call, what, "pytorch")
        if program.launch.kind is not None:
            yield from (
                need for need in module.once(_list_libraries) if _SET_BY_HAND[need.kind] not in written
            )


def _asks_only_for_others(program: Program) -> bool:
    """Whether the script reads no variable of its own job; one that does knows several launchers."""
    kind = program.launch.kind
    reads = {name for other in program.modules for name, _ in variable_reads(other)}
    return kind is not None and program.complete and not any(_kind_of(name) == kind for name in reads)


def _find_reads(module: Module, written: set[str], *, asks: bool) -> Iterator[_Need]:
    """Environment variables that the script needs; with ``asks`` also those that it only asks for."""
    for name, node in variable_reads(module):
        of_kind = _kind_of(name)
        fails = isinstance(node, ast.Subscript)
        is_needed = fails or (asks and of_kind != "slurm")  # who asks for Slurm's may run elsewhere too
        if of_kind is not None and name not in written and is_needed:
            yield _Need(module, node, f"the script reads `{name}`", of_kind, alone=not fails)


def _list_libraries(module: Module) -> list[_Need]:
    """Libraries that find the other processes in only one way."""
    needs = [
        _Need(module, call, "`hvd.init()` reads the ranks of MPI", "mpi", alone=True)
        for call in module.called(*_HOROVOD)
    ]
    needs += [
        _Need(module, node, "`MPI.COMM_WORLD` needs the ranks of MPI", "mpi", alone=True)
        for node in module.kinds.get(ast.Attribute, ())
        if node.attr == "COMM_WORLD" and module.name_of(node) == "mpi4py.MPI.COMM_WORLD"
    ]
    return needs + [
        _Need(module, call, f"`{last_name(call)}` reads `TF_CONFIG`", "tensorflow", alone=True)
        for call in module.called(*list_last_names("reads_tf_config"))
    ]


def _uses_environment(call: ast.Call) -> bool:
    """Whether a call finds its rank and the other processes from the environment."""
    if {one.arg for one in call.keywords} & {"rank", "world_size", "store", None} or len(call.args) > 2:
        return False
    method = find_passed(call, 1, "init_method")
    backend = constant_value(find_passed(call, 0, "backend"))
    by_default = method is None or (isinstance(method, ast.Constant) and method.value in (None, "env://"))
    return by_default and backend != "mpi"


def _find_written(context: Tree, program: Program) -> set[str] | None:
    """The variables that the job, the command or the script sets; None if not all are known."""
    written = set(context.once(_find_set_by_job, program.launch))
    for module in program.modules:
        names = module.once(_list_writes)
        if names is None:
            return None
        written |= names
    return written


def _find_set_by_job(_context: Tree, launch: Launch) -> set[str]:
    return {variable.name for variable in launch.list_variables()}


def _list_writes(module: Module) -> set[str] | None:
    if _sets_by_name(module):
        return None
    written = {
        name for name, _, statement in variable_writes(module) if not _is_read_before(module, name, statement)
    }
    for name, call in module.calls:
        if name.startswith(("os.environ.", "os.putenv")) and name.rpartition(".")[2] in _SETS_ALL:
            value = constant_value(call.args[0] if call.args else None)
            if not isinstance(value, str):
                return None
            written.add(value)
        elif name.endswith("load_dotenv"):
            return None
    return written


def _sets_by_name(module: Module) -> bool:
    """Whether a file sets a variable whose name is worked out, as in `os.environ[name] = …`."""
    return any(
        isinstance(node.ctx, ast.Store)
        and is_environment(node.value)
        and not isinstance(constant_value(node.slice), str)
        for node in module.kinds.get(ast.Subscript, ())
    )


def _is_read_before(module: Module, name: str, statement: ast.stmt) -> bool:
    """Whether the same function reads the variable first, and stops where it is not set."""
    scope = find_scope(module, statement)
    return any(
        variable == name
        and isinstance(node, ast.Subscript)
        and find_scope(module, node) is scope
        and node.lineno < statement.lineno
        for variable, node in variable_reads(module)
    )


def _kind_of(name: str) -> str | None:
    setter = find_setter(name)
    return setter if setter in ("pytorch", "mpi", "slurm", "tensorflow") else None
