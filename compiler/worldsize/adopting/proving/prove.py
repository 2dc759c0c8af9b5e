"""Proves an adoption: the original in one process and the adopted script in two follow one loss curve."""

from __future__ import annotations

import ast
import json
import os
import re
import select
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.adopting.model import Adoption, Flag, Role, ScriptProfile
from worldsize.adopting.options.arguments import find_given, write_arguments
from worldsize.adopting.proving.curves import (
    Comparison,
    Recorded,
    average_losses,
    compare_curves,
    explain_rounding,
    find_sampling_faults,
    read_recording,
)
from worldsize.adopting.proving.recorder import SETTINGS
from worldsize.base.wording import plural
from worldsize.running.launch.call import DEFAULTS, find_shell, inherited_environment, make_interpreter_folder
from worldsize.running.launch.group import Group
from worldsize.running.launch.launchers import count_ports, plan_processes
from worldsize.running.launch.logs import last_lines
from worldsize.running.launch.reserve import reserve_ports
from worldsize.running.launch.supervisor import Supervisor
from worldsize.running.model.process import Call
from worldsize.scripts.module import parse_text

PROCESSES = 2
STEPS = 50
SECONDS = 600.0


RECORDER = Path(__file__).with_name("recorder.py")
GRACE_SECONDS = 2.0
LOOK_SECONDS = 0.2
SHOWN_LINES = 12
_RANK = re.compile(r"\[rank\d+\]: ")  # with which torch marks each line
_OWN_LINES = 10  # of the recorder in a traceback, at most


class Training(Struct, frozen=True):
    """One side of a proof: a script, its arguments, and in how many processes it runs."""

    script: Path
    arguments: tuple[str, ...]
    processes: int
    settings: dict[str, Any]  # of the recorder
    folder: Path  # for its logs

    @property
    def launcher(self) -> str:
        """How Azure ML starts it."""
        if self.processes == 1:
            return "none"
        return "tensorflow" if self.settings["framework"] == "keras" else "pytorch"


class Ended(Struct, frozen=True):
    """How the processes have ended. ``failed`` is the name of the first that failed, with its last lines."""

    failed: str | None = None
    status: int = 0
    lines: tuple[str, ...] = ()
    timed_out: bool = False


Launch = Callable[[Training, float], Ended]


def plan_call(training: Training, prefix: Sequence[str] = ()) -> Call:
    """The call of a side, from which its processes are planned as those of any step.

    Args:
        training: The side.
        prefix: Words before the command.
    """
    command = [*prefix, sys.executable, str(RECORDER), str(training.script), *training.arguments]
    workers = training.processes if training.launcher == "tensorflow" else None
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return Call(
        step="train",
        launcher=training.launcher,
        command=shlex.join(command),
        instance_count=training.processes if workers else 1,
        process_count_per_instance=1 if workers else training.processes,
        worker_count=workers,
        env={**DEFAULTS, **_variables(training), "OMP_NUM_THREADS": str(max(1, cores // 2))},
        cores=cores,
        on_cpu=training.processes > 1,
        shell=find_shell(),
    )


def _variables(training: Training) -> dict[str, str]:
    """What keeps a proof from writing elsewhere, and both sides on the same devices."""
    variables = {
        SETTINGS: json.dumps(training.settings),
        "MLFLOW_TRACKING_URI": f"sqlite:///{training.folder / 'mlflow.db'}",
        "MPLBACKEND": "Agg",
        "WANDB_MODE": "disabled",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    if not has_two_gpus():
        variables["CUDA_VISIBLE_DEVICES"] = ""
    return variables


def has_two_gpus() -> bool:
    """Whether each of two processes can have a GPU of its own; else both sides run on processors."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return visible.count(",") > 0
    return shutil.which("nvidia-smi") is not None and len(list(Path("/dev").glob("nvidia[0-9]*"))) > 1


def launch_training(training: Training, seconds: float, prefix: Sequence[str] = ()) -> Ended:
    """Start the processes, wait until they have ended, and leave none behind.

    Args:
        training: What to start.
        seconds: After which they are stopped.
        prefix: Words before the command.

    Raises:
        OSError: They cannot be started.
    """
    training.folder.mkdir(parents=True, exist_ok=True)
    call = plan_call(training, prefix)
    environment = inherited_environment(make_interpreter_folder(training.folder))
    deadline = time.monotonic() + seconds
    timed_out = False
    with (
        reserve_ports(count_ports(call)) as ports,
        Supervisor(environment) as supervisor,
        Group(
            plan_processes(call, [str(port) for port in ports]),
            supervisor,
            cwd=training.script.parents[(training.settings.get("module") or "").count(".")],
            logs=training.folder,
            grace=GRACE_SECONDS,
        ) as group,
    ):
        stopped = False
        while not group.done and group.look():
            if select.select([group], [], [], LOOK_SECONDS)[0]:
                group.read()
            timed_out = timed_out or time.monotonic() >= deadline
            if (timed_out or group.failure is not None) and not stopped:
                group.stop()
                stopped = True
        failure = group.failure
    if failure is None:
        return Ended(group.lost, timed_out=timed_out) if group.lost else Ended(timed_out=timed_out)
    lines = last_lines(training.folder / f"{failure.process.name}.log", SHOWN_LINES + _OWN_LINES)
    shown = tuple(leave_out_own(lines)[-SHOWN_LINES:])
    return Ended(failure.process.title, failure.status, shown, timed_out)


def leave_out_own(lines: Sequence[str]) -> list[str]:
    """The lines of a log without those of a traceback that show the recorder."""
    kept = []
    is_own = False
    for line in lines:
        bare = _RANK.sub("", line)
        if bare.startswith('  File "'):
            is_own = str(RECORDER) in line or "<frozen runpy>" in line
        elif not bare.startswith("    "):
            is_own = False
        if not is_own:
            kept.append(line)
    return kept


class Request(Struct, frozen=True):
    """What is to be proven, and within which bounds."""

    adoption: Adoption
    script: Path
    original: bytes  # the script as it lies there
    arguments: tuple[str, ...] = ()  # for both sides
    data: Path | None = None
    steps: int = STEPS
    seconds: float = SECONDS  # for each side


class Failed(Struct, frozen=True):
    """Why there is no comparison: a side could not be run to a step. ``lines`` are the last of its log."""

    message: str
    help: str | None = None
    lines: tuple[str, ...] = ()


class Measured(Struct, frozen=True):
    """What a proof has seen of the training; None is unknown."""

    rows: int | None = None  # that train
    parameters: int | None = None
    forward_flops: float | None = None  # of one sample


class Proof(Struct, frozen=True):
    """What a proof found. ``batch`` is the global batch of both sides."""

    comparison: Comparison | None
    measured: Measured = Measured()
    failed: Failed | None = None
    batch: int | None = None
    note: str | None = None  # what it has not tried

    @property
    def holds(self) -> bool:
        """Whether the curves agree, or differ for a known cause."""
        return self.comparison is not None and self.comparison.verdict != "different"


def prove(request: Request, launch: Launch = launch_training) -> Proof:
    """Run both sides in copies of the script's folder, and compare their losses.

    The adopted script runs first; the original then reads the samples in the order in which the processes of
    the adopted script read theirs together.

    Raises:
        OSError: The folder cannot be copied, or processes cannot be started.
    """
    folder = Path(tempfile.mkdtemp(prefix="worldsize-adopt-"))
    try:
        return _prove(request, launch, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prove(request: Request, launch: Launch, folder: Path) -> Proof:
    profile = request.adoption.profile
    batch = find_batch(profile, request.arguments)
    if isinstance(batch, Failed):
        return Proof(None, failed=batch)
    run = partial(_run_side, request, launch, folder, batch=batch)
    sides: list[list[Recorded]] = []
    steps = request.steps
    timed_out = False
    late: dict[str, Ended] = {}  # that failed behind the last step
    for name in ("adopted", "original"):
        ended, ranks = run(name, steps=steps)
        if ended.failed is not None and min(len(rank.losses) for rank in ranks) >= steps:
            late[name] = ended
        elif (failed := _explain_end(name, ended, ranks, request)) is not None:
            if name == "adopted" and ended.lines:  # perhaps the original fails alike
                alone, ranks = run("original", steps=steps)
                if alone.lines and _RANK.sub("", ended.lines[-1]) == alone.lines[-1]:
                    failed = _explain_end("original", alone, ranks, request) or failed
            return Proof(None, failed=failed, batch=batch)
        timed_out = timed_out or ended.timed_out
        if ended.timed_out:  # the other side goes as far
            steps = min(len(rank.losses) for rank in ranks)
        sides.append(ranks)
    if (end := late.get("adopted")) is not None and "original" not in late:
        return Proof(None, failed=_explain_late(end), batch=batch)
    compared, measured = _compare(profile, sides[0], sides[1][0], batch), _measure(sides, batch)
    if compared.is_unexplained and not timed_out:
        _, (again,) = run("again", steps=steps)
        compared = explain_rounding(compared, again.losses)
    tried = sides[0][0].passed is not False and not late and not timed_out
    note = None if tried else describe_untried(steps, measured.rows, batch, failed=bool(late))
    return Proof(compared, measured, batch=batch, note=note)


def _run_side(
    request: Request, launch: Launch, folder: Path, name: str, *, batch: int, steps: int
) -> tuple[Ended, list[Recorded]]:
    """Run a script in a copy of its folder: ``adopted``, ``original``, or that ``again``.

    The original reads in each batch what the processes read, one after the other; again, the last is first.
    """
    profile = request.adoption.profile
    processes = PROCESSES if name == "adopted" else 1
    text = request.adoption.text.encode(request.adoption.encoding) if processes > 1 else request.original
    code = profile.find_folder(request.script)
    inside = str(request.script.absolute().relative_to(code.absolute()))
    copied = folder / name / ROOM / "code"
    script = copy_folder(code, copied, inside, text)
    copy_outside(code, copied, request.adoption.source)
    records = folder / f"{name}-records"
    records.mkdir()
    replayed = [str(folder / "adopted-records" / f"{rank}.jsonl") for rank in range(PROCESSES)]
    settings = {
        "folder": str(records),
        "steps": steps,
        "world_size": processes,
        "framework": profile.framework,
        "module": profile.module,
        "replay": [] if processes > 1 else replayed[::-1] if name == "again" else replayed,
    }
    arguments = tuple(_arguments(request, batch, processes, folder / f"{name}-out"))
    training = Training(script, arguments, processes, settings, folder / f"{name}-logs")
    ended = launch(training, request.seconds)
    return ended, [read_recording(records / f"{rank}.jsonl") for rank in range(processes)]


def _explain_late(ended: Ended) -> Failed:
    """Why the adopted script fails at the end of an epoch, where the original does not."""
    what = f"{ended.failed} ended with status {ended.status}"
    help_ = "the original goes on there: please report it, with the script if you can"
    return Failed(f"the adopted script fails at the end of an epoch: {what}", help_, ended.lines)


def describe_untried(steps: int, rows: int | None, batch: int, *, failed: bool) -> str:
    """What the proof has not seen, and how many steps see it."""
    whole = -(-rows // batch) if rows is not None else 0
    more = f"`--steps {whole}` takes a whole one" if whole > steps else "`--steps` takes more"
    if failed:
        return f"both sides end with an error at the end of an epoch, which the proof cuts short: {more}"
    taken = "this step ends" if steps == 1 else f"these {steps} steps end"
    return f"{taken} before an epoch does, so what follows one, such as validation, is not tried: {more}"


def _measure(sides: list[list[Recorded]], batch: int) -> Measured:
    """What both sides tell of the training: its rows are those of the loader that is drawn from most."""
    (adopted, *_), (original, *_) = sides
    drawn = {name: sum(map(len, epochs.values())) for name, epochs in adopted.draws.items()}
    name = max(drawn, key=lambda cause: drawn[cause], default=None)
    rows = adopted.loaders[name]["length"] if name is not None else None
    flops = original.forward_flops / batch if original.forward_flops else None
    return Measured(rows, original.parameters, flops)


def find_batch(profile: ScriptProfile, arguments: Sequence[str]) -> int | Failed:
    """The batch size of the original, which its two processes share."""
    flag = profile.flag("batch_size")
    argument = find_given(flag, profile.flags, arguments, profile.subcommand)
    size = argument or (flag.default if flag is not None else None) or profile.batch_size
    if flag is None or size is None:
        return Failed(
            "the batch size is not known, so two processes cannot share it",
            "give the script an option for it, such as `--batch-size`",
        )
    batch = int(size)
    if batch % PROCESSES:
        return Failed(
            f"a batch of {batch} cannot be shared by {PROCESSES} processes",
            f"prove it with another: `--arguments '{flag.option} {max(2, batch - batch % PROCESSES)}'`",
        )
    return batch


def _arguments(request: Request, batch: int, processes: int, out: Path) -> Iterator[str]:
    """The command line of one side."""
    profile = request.adoption.profile
    is_adopted = processes > 1
    ours: list[tuple[Flag, str]] = []

    def find_flag(role: Role) -> Flag | None:
        flag = profile.flag(role)
        return flag if flag is not None and (is_adopted or not flag.added) else None

    batch_flag = find_flag("batch_size")
    if batch_flag is not None and is_adopted:
        ours.append((batch_flag, str(batch // processes)))
    data = find_flag("data")
    if data is not None and request.data is not None:
        ours.append((data, str(request.data.absolute())))
    roles: tuple[Role, ...] = ("output", "checkpoints")
    for role in roles:
        flag = find_flag(role)
        saves = is_adopted and role == "checkpoints" and profile.framework == "torch"
        argument = find_given(flag, profile.flags, request.arguments, profile.subcommand)
        if flag is not None and (flag.required or saves) and argument is None:
            (out / role).mkdir(parents=True)
            ours.append((flag, str(out / role)))
    yield from write_arguments(profile, request.arguments, ours)


def _explain_end(name: str, ended: Ended, ranks: Sequence[Recorded], request: Request) -> Failed | None:
    """Why a side has no curve; None where it has one."""
    what = "the original" if name == "original" else "the adopted script"
    steps = min(len(rank.losses) for rank in ranks)
    if ended.timed_out and not steps:
        return Failed(
            f"{what} took no step in {request.seconds:g} seconds",
            "give it less to do before the first step, or more time with `--timeout`",
            ended.lines,
        )
    if ended.failed is not None and not ended.timed_out:
        return Failed(
            f"{what} fails: {ended.failed} ended with status {ended.status} after {plural(steps, 'step')}",
            _suggest(ended, request),
            ended.lines,
        )
    if not steps:
        return Failed(
            f"{what} ends without a step: it never calls `backward`, or not in this process",
            "name the script that trains, and its options by `--arguments '…'`",
            ended.lines,
        )
    return None


def _suggest(ended: Ended, request: Request) -> str | None:
    text = "\n".join(ended.lines)
    if "FileNotFoundError" in text or "No such file" in text:
        return "name its data with `--data PATH`" if request.data is None else None
    if "the following arguments are required" in text or "unrecognized arguments" in text:
        return "give its options by `--arguments '…'`"
    if "NVIDIA driver" in text or "not compiled with CUDA" in text:
        return "it needs a GPU, and this machine has none: skip the proof with `--no-run`"
    return None


def _compare(profile: ScriptProfile, adopted: list[Recorded], original: Recorded, batch: int) -> Comparison:
    losses = average_losses(adopted)
    faults = find_sampling_faults(adopted) if len(adopted) > 1 else []
    if len(losses) != len(original.losses):
        faults.append(
            f"the original takes {plural(len(original.losses), 'step')}, the adopted script {len(losses)}"
        )
    shuffled_here = bool(original.loaders)
    return compare_curves(
        original.losses, losses, list(_reasons(profile, batch, shuffled_here=shuffled_here)), faults
    )


def _reasons(profile: ScriptProfile, batch: int, *, shuffled_here: bool) -> Iterator[str]:
    """What makes two processes differ from one, as far as the script tells."""
    if profile.has_batch_norm:
        yield (
            f"BatchNorm normalises over {batch // PROCESSES} samples instead of {batch}:"
            " on GPUs, `SyncBatchNorm.convert_sync_batchnorm(model)` restores the batch"
        )
    if profile.has_dropout:
        option = next((flag.option for flag in profile.flags if "dropout" in flag.option), None)
        off = f"`--arguments '{option} 0'`" if option is not None else "in a copy, set its rate to 0"
        yield f"each process draws its own dropout masks (for a proof without them: {off})"
    if profile.draws_noise:
        yield "each process draws noise of its own"
    if profile.compares_rows:
        yield "the loss compares the rows of a batch, of which each process has a part"
    if profile.prepared_scheduler:
        yield "Accelerate takes a step of a prepared scheduler for each process"
    if profile.random_augmentation:
        yield "each process draws its own augmentation"
    if profile.own_sampler:
        yield "a sampler of the script draws the samples"
    elif profile.shuffles and not shuffled_here and profile.framework != "keras":
        yield "the script shuffles by its own code, outside of a DataLoader"
    if profile.framework == "keras" and profile.shuffles:
        yield "Keras shuffles inside `fit`"


LEFT_OUT = frozenset({".git", ".venv", "venv", "env", "__pycache__", ".worldsize", "mlruns", "node_modules"})
COPIED_BYTES = 256 << 20  # of a folder; what is beyond is linked: data, which a training only reads
ROOM = "a/b/c"  # above a copy, for what a script reads from `../`


def copy_folder(source: Path, target: Path, script: str, text: bytes) -> Path:
    """Copy the folder of a script, smallest entries first, and write ``text`` in place of the script.

    Files and folders that would bring the copy over :data:`COPIED_BYTES` become links.

    Returns:
        The script in the copy.

    Raises:
        OSError: The folder cannot be read, or there is no space.
    """
    target.mkdir(parents=True)
    sizes = sorted(
        (_size(path), path) for path in source.iterdir() if path.name not in LEFT_OUT and path.name != script
    )
    left = COPIED_BYTES
    for size, entry in sizes:
        left -= size
        copy = target / entry.name
        if left < 0 or not (entry.is_file() or entry.is_dir()):
            copy.symlink_to(entry.absolute())
        elif entry.is_dir():
            shutil.copytree(entry, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy2(entry, copy)
    path = target / script
    path.write_bytes(text)
    return path


def copy_outside(source: Path, target: Path, text: str) -> None:
    """Copy what a script names outside of its folder, as in ``open("../data.csv")``, to where it looks.

    Raises:
        OSError: It cannot be read, or there is no space.
    """
    top = target.parents[ROOM.count("/")]
    for name in sorted(_list_outside(text)):
        entry, copy = source / name, Path(os.path.normpath(target / name))
        if not entry.exists() or copy.exists() or top not in copy.parents:
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if _size(entry) > COPIED_BYTES or not (entry.is_file() or entry.is_dir()):
            copy.symlink_to(entry.resolve())
        elif entry.is_dir():
            shutil.copytree(entry, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy2(entry, copy)


def _list_outside(text: str) -> set[str]:
    """The texts of a script that may be a path from the folder above: ``"../data.csv"``."""
    return {
        node.value
        for node in ast.walk(parse_text(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.startswith("../") and len(node.value) < 200 and node.value.strip("./")
        if "\0" not in node.value
    }


def _size(entry: Path) -> int:
    """The bytes of a file or of a folder's files; above the limit it stops to count."""
    if entry.is_symlink() or not entry.is_dir():
        return entry.lstat().st_size
    total = 0
    for folder, folders, files in os.walk(entry):
        folders[:] = [folder for folder in folders if folder not in LEFT_OUT]
        total += sum((Path(folder) / path).lstat().st_size for path in files)
        if total > COPIED_BYTES:
            break
    return total
