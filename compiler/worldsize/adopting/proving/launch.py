"""Starts the processes of one side of a proof as ``worldsize run`` starts a step, and waits for their end."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.adopting.proving.recorder import SETTINGS
from worldsize.running.launch.call import DEFAULTS, find_shell, inherited_environment, make_interpreter_folder
from worldsize.running.launch.group import Group
from worldsize.running.launch.launchers import count_ports, plan_processes
from worldsize.running.launch.logs import last_lines
from worldsize.running.launch.reserve import reserve_ports
from worldsize.running.launch.supervisor import Supervisor
from worldsize.running.model.process import Call

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
