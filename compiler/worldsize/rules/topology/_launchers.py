"""Launchers in a command, such as `torchrun` and `mpirun`, beside what Azure ML starts itself."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.command_launchers import MPI, TORCH, InnerLauncher
from worldsize.azureml.command_line import Word
from worldsize.azureml.fields import read_member
from worldsize.azureml.launch import STARTS_PROCESSES, Launch, find_inner_launchers, read_launches
from worldsize.azureml.model import Job
from worldsize.azureml.tree import Tree
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Confidence, Finding, relate
from worldsize.base.wording import plural


def check_mpirun_in_mpi_job(context: Tree, launch: Launch) -> Iterator[Finding]:
    if launch.kind != "mpi" or launch.world == 1:
        return
    for inner in find_inner_launchers(launch):
        span = launch.span(inner.word)
        if inner.name in MPI and span is not None:
            already = f" {launch.world} times" if launch.world is not None else " once per process"
            message = f"`{inner.name}` in an MPI job: Azure ML already starts the command{already} with MPI"
            yield Finding(span, message, f"write the command without `{inner.name}` and its options")


def check_launcher_inside_launcher(context: Tree, launch: Launch) -> Iterator[Finding]:
    outer = launch.processes.value
    if launch.kind not in STARTS_PROCESSES or outer is None or outer < 2:
        return
    for inner in find_inner_launchers(launch):
        span = launch.span(inner.word)
        if span is None or (launch.kind == "mpi" and inner.name in MPI):
            continue
        processes = plural(inner.starts, "process") if inner.starts else "processes"
        total = f": {outer * inner.starts} per instance" if inner.starts and inner.starts > 1 else ""
        message = f"`{inner.name}` starts {processes} in each of the {outer} that Azure ML starts{total}"
        help_ = f"write `python` instead of `{inner.name}` and its options"
        if launch.instances.value == 1:
            help_ += ", or set `process_count_per_instance: 1`"
        yield Finding(span, message, help_, relate(launch.processes.span, "started by Azure ML"))


_WITHOUT = compile_later(
    r"(?:docker\.io/)?(?:library/)?(?:python|ubuntu|debian|continuumio/\w+|nvidia/cuda|pytorch/pytorch|"
    r"tensorflow/tensorflow|mcr\.microsoft\.com/azureml/minimal[\w.-]*)(?::.*)?"
)


def check_mpi_image_without_mpi(context: Tree, launch: Launch) -> Iterator[Finding]:
    environment = launch.step.component.environment if launch.step.component else None
    image, build, conda_file = (read_member(environment, name) for name in ("image", "build", "conda_file"))
    if launch.kind != "mpi" or image is None or image.span is None or build or conda_file:
        return
    if isinstance(image.value, str) and _WITHOUT.fullmatch(image.value):
        message = f"`type: mpi` needs an image with MPI, but `{image.value}` has none"
        help_ = "use an image such as `mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04`"
        yield Finding(image.span, message, help_)


_LOCAL = compile_later(r"(?:\w+://)?(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0)(?::\d+)?")
_ADDRESSES = ("master_addr", "rdzv_endpoint", "main_process_ip")
_RANKS = ("node_rank", "machine_rank")
_MEET = frozenset({*_ADDRESSES, *_RANKS, "rdzv_backend", "rdzv_id", "standalone"})

_SAME_RANK = compile_later(r"^\$\{?(?:OMPI_COMM_WORLD_(?:NODE|LOCAL)_RANK|LOCAL_RANK)\}?$")
_NODE_RANK = "write `$NODE_RANK`, which Azure ML sets on each instance"
_MACHINES = "--machine_rank $NODE_RANK --main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT"
_ADDRESS = "--master_addr $MASTER_ADDR --master_port $MASTER_PORT"
_WHERE = f"--node_rank $NODE_RANK {_ADDRESS}"


def check_launcher_nodes_disagree(context: Tree, job: Job) -> Iterator[Finding]:
    for launch in read_launches(context, job):
        count = launch.instances.value
        if count is None or (launch.kind is None and count > 1) or (launch.processes.value or 2) > 1:
            continue  # one instance runs the command, or each several times: that is reported as such
        for inner in find_inner_launchers(launch):
            is_judged = inner.clear and inner.name not in MPI
            fault = _find_fault(launch, inner, count) if is_judged else None
            span = launch.span(fault[0]) if fault is not None else None
            if fault is not None and span is not None:
                related = relate(launch.instances.span, plural(count, "instance"))
                sure: Confidence | None = None if inner.name in TORCH else "likely"
                yield Finding(span, fault[1], fault[2], related=related, confidence=sure)


def _find_fault(launch: Launch, inner: InnerLauncher, count: int) -> tuple[Word, str, str] | None:
    """The word to edit, what is wrong with it, and what to write."""
    options, nodes = inner.options, inner.nodes
    has_option = inner.nodes_word is not inner.word
    if has_option and nodes is not None and nodes != count:
        message = (
            f"`{inner.name}` is for {plural(nodes, 'node')}, but the job has {plural(count, 'instance')}"
        )
        return inner.nodes_word, message, f"write {count}, or `instance_count: {nodes}`"
    if count < 2:
        return None
    if (odd := _find_indivisible(launch, inner, count)) is not None:
        return odd
    if "standalone" in options:
        message = f"`--standalone` is for one node: each of the {count} instances trains alone"
        return options["standalone"][0], message, f"write `--nnodes {count} {_WHERE}` instead"
    if nodes == 1 and inner.name in TORCH and not has_option and not _MEET & options.keys():
        message = (
            f"`{inner.name}` without `--nnodes` is for one node: each of the {count} instances trains alone"
        )
        return inner.word, message, f"add `--nnodes {count} {_WHERE}`"
    return _find_fixed(inner, count) or _find_absent(launch, inner, count)


def _find_indivisible(launch: Launch, inner: InnerLauncher, count: int) -> tuple[Word, str, str] | None:
    """A number of processes that the machines cannot share equally; Accelerate drops the rest."""
    value = inner.options.get("num_processes", (inner.word, None))[1]
    number = launch.read_number(value.bare) if value is not None else None
    if value is None or number is None or inner.name != "accelerate launch" or number % count == 0:
        return None
    total = int(number)
    message = f"`--num_processes` is {total}, which {count} machines cannot share equally"
    below = total // count * count
    near = " or ".join(str(multiple) for multiple in (below, below + count) if multiple)
    return value, message, f"write {near}: it counts the processes of all machines"


def _find_absent(launch: Launch, inner: InnerLauncher, count: int) -> tuple[Word, str, str] | None:
    """What a launcher other than torch's lacks to find the other instances."""
    options, has_option = inner.options.keys(), inner.nodes_word is not inner.word
    if inner.name == "accelerate launch" and not {"config_file", "rdzv_backend"} & options:
        if not has_option and not _MEET & options:
            message = "`accelerate launch` without `--num_machines` is for one machine"
            message += f": each of the {count} instances trains alone"
            return inner.word, message, f"add `--num_machines {count} {_MACHINES}`"
        absent = [f"`--{name}`" for name in ("machine_rank", "main_process_ip") if name not in options]
        if inner.nodes == count and absent:
            message = f"`accelerate launch` is for {count} machines, but {' and '.join(absent)} is missing"
            return inner.nodes_word, message, f"add `{_MACHINES}`"
    hosts = any("hostfile" in word.text for command in launch.commands for word in command.words)
    if inner.name == "deepspeed" and not hosts and not {"H", "no_ssh", "launcher"} & options:
        message = (
            f"`deepspeed` without `--hostfile` is for one node: each of the {count} instances trains alone"
        )
        return inner.word, message, "let Azure ML start the processes: `python train.py`, one process per GPU"
    return None


def _find_fixed(inner: InnerLauncher, count: int) -> tuple[Word, str, str] | None:
    """What does not differ between instances, but must."""
    for name in _ADDRESSES:
        flag, value = inner.options.get(name, (inner.word, None))
        if value is not None and _LOCAL.fullmatch(value.bare):
            shown = flag.text.partition("=")[0]
            message = f"`{shown}` is `{value.bare}` on each of the {count} instances, so they never meet"
            port = value.bare.rpartition(":")[2] if ":" in value.bare else ""
            written = f"$MASTER_ADDR:{port}" if port else "$MASTER_ADDR"
            return value, message, f"write `{written}`, which is the first instance"
    for name in _RANKS:
        flag, value = inner.options.get(name, (inner.word, None))
        if value is not None and _SAME_RANK.search(value.bare):
            message = f"`{value.bare}` is 0 on each of the {count} instances: it counts processes on one"
            shown = flag.text.partition("=")[0]
            return Word(shown, flag.start, flag.start + len(shown), flag.source), message, _NODE_RANK
        if value is not None and value.bare.isdigit():
            message = f"`{flag.text.partition('=')[0]}` is {value.bare} on each of the {count} instances"
            return value, message, _NODE_RANK
    return _find_missing(inner, count) if inner.nodes is not None and inner.name in TORCH else None


def _find_missing(inner: InnerLauncher, count: int) -> tuple[Word, str, str] | None:
    """What torch's launcher lacks to find the other instances."""
    if not {"rdzv_backend", "rdzv_endpoint", "node_rank"} & inner.options.keys():
        message = f"`{inner.name}` without `--node_rank` is node 0 on each of the {count} instances"
        return inner.word, message, f"add `{_WHERE}`"
    if not {"rdzv_endpoint", "master_addr"} & inner.options.keys():
        message = f"`{inner.name}` without an address waits on each of the {count} instances for itself"
        dynamic = "rdzv_backend" in inner.options
        help_ = "add `--rdzv_endpoint $MASTER_ADDR:$MASTER_PORT`" if dynamic else f"add `{_ADDRESS}`"
        return inner.word, message, help_
    return None
