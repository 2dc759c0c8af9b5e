"""Explains why a step failed: the process that failed first, and the cause that its log or machine shows.

A process that dies closes its connections, and its peers fail too: with gloo or NCCL immediately, so that the
guard may report them in any order. Three things distinguish the cause from its effects: a process that ended
on its own comes before one that was asked to end; a log that ends in a lost connection is an effect; and
among those that remain, the first that was seen to end is the cause.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from msgspec import Struct

from worldsize.azureml.copying import CopyAccess
from worldsize.base import untrusted
from worldsize.base.wording import format_memory
from worldsize.running.environments.definition import read_definition
from worldsize.running.launch.group import EndedProcess, Group
from worldsize.running.launch.logs import last_lines
from worldsize.running.launch.machine import EXTRAS
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.process import Process
from worldsize.running.model.results import Failure, describe_ending, describe_running, failure_of_step
from worldsize.running.model.task import Task
from wsshards.errors import RESUME_EXIT_STATUS
from wstrain.health.memory import smaller_batch
from wstrain.health.watchdog import HANG_EXIT_STATUS

TAIL_LINES = 40  # of a log that are searched for a cause
SHOWN_LINES = 15  # of it that a user sees
_AGENT = re.compile(r"torch/distributed/elastic/\S+:\d+\] (?:failed \(exitcode|Sending process)")
# What gloo, NCCL, the stores of torch, MPI, Horovod, gRPC and our own components write of a lost peer.
_PEER_GONE = re.compile(
    r"connection (?:was )?(?:likely )?(?:closed|reset|refused)|closed by (?:the )?(?:peer|remote)"
    r"|broken pipe|socket closed|socket timeout|end of file|timed out (?:waiting|after)"
    r"|ncclRemoteError|ncclSystemError|NCCL communicator was aborted|remote process exited"
    r"|watchdog caught collective operation timeout|DistNetworkError|DistStoreError"
    r"|(?:send|recv)\w{0,30} failed|got 0 bytes|horovod has been shut down|hvd.{0,200}aborted"
    r"|UnavailableError|CancelledError|collective ops is aborted|has gone, so this (?:one|process) stops",
    re.IGNORECASE,
)
_ERROR_LINE = re.compile(r"^error: (.+)$")
_RANK = re.compile(r"^ranks? (\d+)\b.* did not arrive")

Tail = Callable[[Process], Sequence[str]]

MIN_BYTES = 256 * 1024  # with less than this, almost nothing can be written
# torch.distributed and what builds on it: with GPUs in the build but not in the machine, and without.
_NCCL = re.compile(
    r"ProcessGroupNCCL is only supported with GPUs"
    r"|doesn't have NCCL built in|nccl\b.{0,80}only supported (?:on|with) GPU",
    re.IGNORECASE,
)
_TENSORFLOW = re.compile(r"\[\[Nccl\w+\]\]|Op 'Nccl\w+'")
_CUDA = re.compile(
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver on your system|No CUDA GPUs are available"
    r"|has no attribute '_cuda_\w+'|no CUDA-capable device is detected|CUDA driver version is insufficient"
    r"|torch\.cuda\.is_available\(\) is False|CUDAAccelerator.{0,80} can ?not run on your system"
    r"|No supported gpu backend found|Could not satisfy device specification '[^']*GPU"
    r"|unknown device\.? /\S*GPU:\d",
    re.IGNORECASE,
)
_CHOICE = (
    'where `torch.cuda.is_available()` is false, as in `"nccl" if torch.cuda.is_available() else "gloo"`'
)
# As the interpreter ends, `python -m`, or a program that names what it could not load.
_NOT_FOUND = re.compile(r"(?:^|[:(] ?)ModuleNotFoundError: No module named '([\w.]+)'\)?$")
_TERMINATED = "terminate called without an active exception"  # of a C++ thread that outlives its owner
_LEAVE_GROUP = (
    "help: a thread of Gloo still ran while the process ended: write `import torch.distributed.nn`"
    " above `dist.init_process_group(…)`, without which the group lives until Python ends; at the end of the"
    " script delete the wrapped model and call `dist.destroy_process_group()`"
)
_VMSTAT, _EVENTS = Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events")
_MEMORY = Path("/proc/meminfo")


class Verdict(Struct, frozen=True):
    """The process that failed first, and those that followed."""

    cause: EndedProcess  # the process that failed first
    followers: tuple[Process, ...]  # those that failed because of it
    message: str  # what happened, in words


def explain_failure(
    group: Group,
    task: Task,
    logs: Path,
    gpus: Sequence[str],
    *,
    blame: str | None,
    out_of_memory: bool,
    current: bool = False,
) -> Failure:
    """Explain why a group of processes failed.

    ``blame`` is what was done to the step on purpose, ``out_of_memory`` whether the kernel has killed
    processes for memory meanwhile, and ``current`` whether it ran with the packages of this Python.
    """

    def read_tail(process: Process) -> list[str]:
        return leave_out_agent(last_lines(logs / f"{process.name}.log", 3 * TAIL_LINES))[-TAIL_LINES:]

    verdict = find_cause(group.ended, read_tail, group.ranks)
    if verdict is None:
        return failure_of_step(blame or group.lost or "its processes were lost")
    process, status = verdict.cause.process, verdict.cause.status
    notes = [describe_followers(verdict.followers)] if verdict.followers else []
    message = blame or verdict.message
    if status == -signal.SIGKILL and not blame and out_of_memory:
        message += ": the kernel had no memory left"
        notes += explain_oom_kill(task)
    tail = read_tail(process)
    lack = explain_missing_package(tail) or explain_missing_gpus(tail, gpus)
    if lack is not None and not blame:
        message += f": {lack[0]}"
        notes.append(lack[1])
    elif status == -signal.SIGABRT and not blame and any(_TERMINATED in line for line in tail):
        notes.append(_LEAVE_GROUP)
    elif status > 0 and not blame and current and (pins := explain_pins(task, tail, AssetMap())):
        notes.append(pins)
    notes += explain_full_disk(logs)
    log, shown = logs / f"{process.name}.log", tuple(tail[-SHOWN_LINES:])
    return Failure(process.name, process.rank, status, log, shown, message, tuple(notes))


def leave_out_agent(lines: list[str]) -> list[str]:
    """The lines before torchrun's own report of a failed rank, which does not say why it failed."""
    start = next((number for number, line in enumerate(lines) if _AGENT.search(line)), 0)
    return lines[:start] or lines


def explain_timeout(group: Group, task: Task, logs: Path, unfinished: Sequence[Process]) -> Failure:
    """Explain the failure of a step that was stopped at its timeout while these processes ran."""
    message = f"it was stopped at its timeout of {task.timeout} s"
    running = [process for process in unfinished if not process.serves] or list(unfinished)
    if task.process_count > 1:
        message += f", {describe_running(running, group.ranks)}"
    log = logs / f"{running[0].name if running else 'rank-0'}.log"
    return Failure(None, None, None, log, tuple(last_lines(log, SHOWN_LINES)), message)


def find_cause(ended: Sequence[EndedProcess], tail: Tail, ranks: Sequence[Process]) -> Verdict | None:
    """Find the process that failed first; None if none failed.

    ``ended`` is in the order in which the ends were seen; ``tail`` gives the last lines of a process.
    """
    failed = list(filter(EndedProcess.is_failure, ended))
    if not failed:
        return None
    tails = {id(exited): list(tail(exited.process)) for exited in failed}
    cause = min(failed, key=lambda exited: _rank_cause(exited, tails[id(exited)]))
    if cause.status == HANG_EXIT_STATUS:
        return _explain_hang(cause, failed, tails, ranks)
    followers = [
        exited.process
        for exited in failed
        if exited is not cause and not exited.process.members and _lost_connection(tails[id(exited)])
    ]
    message = describe_ending(cause.process.title, cause.status)
    if cause.status == RESUME_EXIT_STATUS:
        message = f"{cause.process.title} was asked to stop, and saved its state"
    return Verdict(cause, tuple(followers), message)


def last_error(lines: Sequence[str]) -> str | None:
    """The last line ``error: …`` of a log, without that word."""
    errors = [matched[1] for line in lines if (matched := _ERROR_LINE.match(line))]
    return errors[-1] if errors else None


def failure_signature(message: str, lines: Sequence[str]) -> str:
    """A text that is equal for equal failures: their messages without what changes between attempts."""
    last = last_error(lines) or (lines[-1] if lines else "")
    return re.sub(r"0x[0-9a-f]+|\d+", "#", f"{message} {last}")


def describe_followers(followers: Sequence[Process]) -> str:
    """``3 other ranks failed because of it``."""
    kind = followers[0].title.split()[0]
    return f"{len(followers)} other {kind}{'s' * (len(followers) > 1)} failed because of it"


def _rank_cause(exited: EndedProcess, lines: Sequence[str]) -> int:
    if exited.told:
        return 3
    if exited.process.members:
        return 2  # mpirun fails because of a rank
    return 1 if _lost_connection(lines) else 0


def _lost_connection(lines: Sequence[str]) -> bool:
    return any(_PEER_GONE.search(line) for line in lines[-TAIL_LINES:])


def _explain_hang(
    first: EndedProcess, failed: Sequence[EndedProcess], tails: dict[int, list[str]], ranks: Sequence[Process]
) -> Verdict:
    """Explain a hang: ranks report who did not arrive, which is the cause if it is known to have ended."""
    words = next((text for exited in failed if (text := last_error(tails[id(exited)]))), None)
    message = words or describe_ending(first.process.title, first.status)
    matched = _RANK.match(message)
    named = next((process for process in ranks if matched and process.rank == int(matched[1])), None)
    cause = next((exited for exited in failed if exited.process is named), first)
    return Verdict(EndedProcess(cause.process, HANG_EXIT_STATUS, told=cause.told), (), message)


def explain_full_disk(folder: Path) -> tuple[str, ...]:
    """Notes about a full disk, empty if there is space."""
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(folder).free
        if free < MIN_BYTES:
            note = (
                f"the disk of the run's folder has {free // 1024} KiB left: free space, then resume the run"
            )
            return (note,)
    return ()


def explain_missing_gpus(lines: Sequence[str], gpus: Sequence[str]) -> tuple[str, str] | None:
    """The cause and the help if a process failed for lack of a GPU, judged by its last lines; else None."""
    if gpus or last_error(lines) is not None:  # a script that explains its error needs no other explanation
        return None
    nccl = "it asks for NCCL, which needs GPUs, and this machine has none"
    if any(_NCCL.search(line) for line in lines):
        return nccl, f"help: use the backend `gloo` {_CHOICE}"
    if any(_TENSORFLOW.search(line) for line in lines):
        return nccl, "help: leave the choice to TensorFlow: `NcclAllReduce` is only for GPUs"
    if any(_CUDA.search(line) for line in lines):
        words = "it asks for a GPU, and this machine has none"
        return words, 'help: use the device "cpu" where `torch.cuda.is_available()` is false'
    return None


def explain_missing_package(lines: Sequence[str]) -> tuple[str, str] | None:
    """The cause and help if a process failed for lack of a package, judged by its last line; else None."""
    matched = _NOT_FOUND.search(lines[-1].strip()) if lines else None
    if matched is None:
        return None
    module = matched[1].partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    advice = f"run `pip install 'worldsize[{extra}]'`" if extra else "install it"
    help_ = f"help: {advice}, or name it in the step's environment and run with `--environment isolated`"
    return f"its Python has no module `{matched[1]}`", help_


def count_oom_kills(vmstat: Path = _VMSTAT, events: Path = _EVENTS) -> int:
    """Count the processes that the kernel has killed for memory since the machine or container started."""
    return max(_read_counter(vmstat, "oom_kill"), _read_counter(events, "oom_kill"))


def explain_oom_kill(task: Task) -> tuple[str, ...]:
    """Notes about a process of a step that was killed for memory."""
    total = _read_counter(_MEMORY, "MemTotal:") * 1024
    advice = [f"the machine has {format_memory(total)} of memory"] if total else []
    planned = task.read_count("predicted_memory_bytes")
    if planned and advice:
        advice[0] += f"; {format_memory(planned)} were planned for each process"
    micro = task.read_count("batch_size_per_device")
    accumulation = task.read_count("gradient_accumulation_steps") or 1
    smaller = smaller_batch(micro, 0.5) if micro else 0
    if micro and smaller < micro:
        advice.append(
            f"help: set `batch_size_per_device` to {smaller} and `gradient_accumulation_steps` to"
            f" {accumulation * (micro // smaller)}: the same global batch, with half the activations or less"
        )
    else:
        advice.append("help: reduce the memory of each process, or start fewer processes")
    return tuple(advice)


def _read_counter(path: Path, name: str) -> int:
    try:
        lines = untrusted.read_text(path, encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
    except (OSError, ValueError, IndexError):
        return 0


MAX_SHOWN = 3


class BrokenPin(Struct, frozen=True):
    """A package whose installed version the environment excludes."""

    pin: str  # `pandas<1.2,>=1.1`
    installed: str  # `pandas 2.3.3`
    modules: frozenset[str]  # that it is imported by


def explain_pins(task: Task, lines: Sequence[str], assets: AssetMap) -> str | None:
    """A sentence about the broken pins of a step that runs in the current Python; None if it has none.

    Those that the last lines of its log mention go before all others, which may have nothing to do with it.
    """
    try:
        definition, _ = read_definition(task.component.environment, task.folder, assets, CopyAccess())
    except OSError:  # the step has failed for a reason of its own
        return None
    broken = list(find_broken_pins(definition.requirements))
    text = "\n".join(lines)
    mentioned = [module for module in broken if _mentions(text, module)]
    # Nobody has chosen what a known image contains.
    shown = mentioned or ([] if definition.modules or _says_why(lines) else broken)
    if not shown:
        return None
    listed = ", ".join(f"`{pin.pin}` (this Python has {pin.installed})" for pin in shown[:MAX_SHOWN])
    more = f" and {len(shown) - MAX_SHOWN} more" if len(shown) > MAX_SHOWN else ""
    return f"its environment pins {listed}{more}: `--environment isolated` installs what it pins"


def _says_why(lines: Sequence[str]) -> bool:
    """Whether a program ends with an error message of its own and no traceback, as built-in components do."""
    traced = any(line.startswith("Traceback ") for line in lines)
    return not traced and any(line.startswith("error: ") for line in lines)


def find_broken_pins(requirements: Sequence[str]) -> Iterator[BrokenPin]:
    """The requirements that the installed version of a package violates; absent packages do not count."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError:  # without the extra `run`
        return
    for line in requirements:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:  # an option, a path or an address
            continue
        if not wanted.specifier or (wanted.marker is not None and not wanted.marker.evaluate()):
            continue
        try:
            distribution = metadata.distribution(wanted.name)
        except metadata.PackageNotFoundError:
            continue
        if not wanted.specifier.contains(distribution.version, prereleases=True):
            pin, installed = f"{wanted.name}{wanted.specifier}", f"{wanted.name} {distribution.version}"
            yield BrokenPin(pin, installed, frozenset(_list_modules(distribution)))


def _list_modules(distribution: metadata.Distribution) -> Iterator[str]:
    """What a package is imported as: `sklearn` for scikit-learn."""
    yield distribution.name
    for file in distribution.files or ():
        name = file.parts[0] if len(file.parts) > 1 else file.stem
        if name.isidentifier() and not name.startswith("_"):
            yield name


def _mentions(text: str, pin: BrokenPin) -> bool:
    names = "|".join(map(re.escape, sorted(pin.modules, key=len, reverse=True)))
    return re.search(rf"(?<![\w-])(?:{names})(?![\w-])", text) is not None
