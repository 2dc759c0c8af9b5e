"""Makes a step's folder: the merged snapshot as working folder, outputs and logs in place."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from worldsize.azureml import snapshot
from worldsize.azureml.archive import Archive
from worldsize.azureml.copying import CopyAccess, copy_listed
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.problem import Problem
from worldsize.running.preparing import untrusted
from worldsize.running.recording.folder import RunFolder
from worldsize.running.recording.privacy import OTHERS
from worldsize.running.starting.inputs import link_inputs, prepare_outputs
from worldsize.running.tasks import Task

SURVIVES = "checkpoints"  # the output that a step's next try goes on from
PRESENT = ("outputs", "logs")  # Azure ML makes these in the working folder and keeps what lands there


def snapshots(tasks: Mapping[str, Task], gate: CopyAccess) -> tuple[dict[str, Snapshot], list[Problem]]:
    """The code of every task, listed but not copied yet, and what is wrong with it."""
    found: dict[str, Snapshot] = {}
    problems: dict[Problem, None] = {}
    listed: dict[tuple[str, ...], Snapshot] = {}
    for name, task in tasks.items():
        code, includes = task.component.code, task.component.additional_includes
        key = (str(task.folder), repr(code and code.value), repr(includes and includes.value))
        if key not in listed:  # steps often share a folder, and a large one takes long to list
            listed[key], more = snapshot.read_snapshot(task.component, task.folder, gate)
            problems.update(dict.fromkeys(more))
        found[name] = listed[key]
        problems.update(dict.fromkeys(untrusted.refusals(task)))
    return found, list(problems)


def prepare(task: Task, code: Snapshot, run: RunFolder) -> None:
    """Make the folder of a step that is about to start.

    Raises:
        OSError: A file cannot be read or written.
    """
    step = run.step(task.name)
    step.logs.mkdir(parents=True, exist_ok=True)
    step.progress.touch()  # ours, so that it is private whatever the umask of the step
    prepare_outputs(task, run)
    link_inputs(task, run)
    materialise(code, step.code)


def clear(task: Task, run: RunFolder) -> None:
    """Make way for another try of a step.

    An output named ``checkpoints`` stays, for the training to go on from; whatever else was half-made goes.
    The logs of the try that failed move to ``logs/attempt-N``, N from 1.

    Raises:
        OSError: Something cannot be moved or removed.
    """
    step = run.step(task.name)
    earlier = len(list(step.logs.glob("attempt-*")))
    old = step.logs / f"attempt-{earlier + 1}"
    old.mkdir(parents=True)
    for path in [*step.logs.glob("*.log"), *step.progress.parent.glob(step.progress.name)]:
        path.rename(old / path.name)
    for folder in (step.code, step.inputs, step.heartbeats):
        shutil.rmtree(folder, ignore_errors=True)
    for path in step.outputs.glob("*"):
        if path.name != SURVIVES:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def materialise(code: Snapshot, folder: Path) -> None:
    """Copy a snapshot into a new folder. A copy, because a command may write into its working folder."""
    folder.mkdir()
    made = {folder}
    for name, source in code.files.items():
        target = folder / name
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        if isinstance(source, Archive):
            source.copy_to(target)
        else:
            target.chmod(copy_listed(source, target) & ~OTHERS)
    for name in PRESENT:
        (folder / name).mkdir(exist_ok=True)
