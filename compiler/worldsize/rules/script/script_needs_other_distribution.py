"""The script reads what another type of `distribution` sets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from worldsize.azureml import fields
from worldsize.azureml.command_launchers import MPI
from worldsize.azureml.launch import Launch, read_inner_launchers
from worldsize.base.problem import Finding, Related
from worldsize.facts.library_calls import list_last_names
from worldsize.rules.context import Context
from worldsize.scripts.bindings import find_scope
from worldsize.scripts.edits import HOROVOD
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_passed,
    last_name,
    variable_read,
    variable_writes,
)
from worldsize.scripts.program import Program

_PYTORCH = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
_HOROVOD = ("hvd.init", *(f"{package}.init" for package in HOROVOD))
_SLURM = re.compile(r"SLURM_(?:PROCID|LOCALID|NTASKS|NNODES|NODEID|STEP_NODELIST|JOB_NODELIST|NODELIST)$")
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


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    launch = program.launch
    kind = launch.kind
    if kind not in ("pytorch", "mpi", "tensorflow", None) or (kind is None and not launch.step.name):
        return
    inner = {inner.name in MPI for inner in read_inner_launchers(context, launch)}
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


def _find_needs(context: Context, program: Program) -> Iterator[_Need]:
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
    reads = {name for other in program.modules for name, _ in other.once(_list_reads)}
    return kind is not None and program.complete and not any(_kind_of(name) == kind for name in reads)


def _find_reads(module: Module, written: set[str], *, asks: bool) -> Iterator[_Need]:
    """Environment variables that the script needs; with ``asks`` also those that it only asks for."""
    for name, node in module.once(_list_reads):
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


def _find_written(context: Context, program: Program) -> set[str] | None:
    """The variables that the job, the command or the script sets; None if not all are known."""
    written = set(context.once(_find_set_by_job, program.launch))
    for module in program.modules:
        names = module.once(_list_writes)
        if names is None:
            return None
        written |= names
    return written


def _find_set_by_job(_context: Context, launch: Launch) -> set[str]:
    return {variable.name for variable in launch.list_variables()}


def _list_writes(module: Module) -> set[str] | None:
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


def _is_read_before(module: Module, name: str, statement: ast.stmt) -> bool:
    """Whether the same function reads the variable first, and stops where it is not set."""
    scope = find_scope(module, statement)
    return any(
        variable == name
        and isinstance(node, ast.Subscript)
        and find_scope(module, node) is scope
        and node.lineno < statement.lineno
        for variable, node in module.once(_list_reads)
    )


def _kind_of(name: str) -> str | None:
    if name in _PYTORCH:
        return "pytorch"
    if name.startswith(("OMPI_COMM_WORLD_", "PMI_")):
        return "mpi"
    if _SLURM.match(name):
        return "slurm"
    return "tensorflow" if name == "TF_CONFIG" else None


def _list_reads(module: Module) -> list[tuple[str, ast.AST]]:
    """The environment variables that a file reads."""
    nodes = (*module.kinds.get(ast.Subscript, ()), *module.kinds.get(ast.Call, ()))
    reads = [node for node in nodes if isinstance(getattr(node, "ctx", ast.Load()), ast.Load)]
    return [(name, node) for node in reads if (name := variable_read(node)) is not None]
