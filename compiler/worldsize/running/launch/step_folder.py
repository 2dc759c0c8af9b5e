"""Makes the folder of a step that is about to start: code, links to inputs, folders for outputs and logs."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from worldsize.azureml.copying import Archive, copy_listed
from worldsize.azureml.literals import PRIMITIVES
from worldsize.azureml.snapshot import Snapshot
from worldsize.running.launch.call import render_source
from worldsize.running.model.folder import OTHERS, RunFolder
from worldsize.running.model.task import ARTIFACTS, CHECKPOINTS, Task, is_text, keeps_checkpoints

PRESENT = ("outputs", "logs")  # Azure ML makes these in the working folder and keeps what lands there


def prepare_step_folder(task: Task, code: Snapshot, run: RunFolder) -> None:
    """Make the folder of a step that is about to start."""
    step = run.step(task.name)
    step.logs.mkdir(parents=True, exist_ok=True)
    step.progress.touch()  # made here, so that it is private whatever the umask of the step
    make_outputs(task, run)
    link_inputs(task, run)
    copy_snapshot(code, step.code)


def clear_step_folder(task: Task, run: RunFolder, *, interrupted: bool) -> None:
    """Clear the folder of a step for another attempt.

    A step with an output named ``checkpoints`` resumes, so what an interrupted attempt has written stays: its
    best model and its log belong to the checkpoints. Of an attempt that completed only ``checkpoints`` stays.
    A step without them begins anew, in empty folders. The logs move to ``logs/attempt-N``, N from 1.
    """
    step = run.step(task.name)
    earlier = len(list(step.logs.glob("attempt-*")))
    old = step.logs / f"attempt-{earlier + 1}"
    old.mkdir(parents=True)
    for path in [*step.logs.glob("*.log"), *step.progress.parent.glob(step.progress.name)]:
        path.rename(old / path.name)
    for folder in (step.code, step.inputs, step.heartbeats):
        shutil.rmtree(folder, ignore_errors=True)
    if interrupted and keeps_checkpoints(task):
        return
    for path in step.outputs.glob("*"):
        if path.name != CHECKPOINTS:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def copy_snapshot(code: Snapshot, folder: Path) -> None:
    """Copy a snapshot into a new folder. A copy, because a command may write into its working folder."""
    folder.mkdir()
    folders = {folder}
    for name, source in code.files.items():
        target = folder / name
        if target.parent not in folders:
            target.parent.mkdir(parents=True, exist_ok=True)
            folders.add(target.parent)
        if isinstance(source, Archive):
            source.copy_to(target)
        else:
            target.chmod(copy_listed(source, target) & ~OTHERS)
    for name in PRESENT:
        (folder / name).mkdir(exist_ok=True)


def make_outputs(task: Task, run: RunFolder) -> None:
    """Make a folder for each output; for a file, or a value in one, only the folder that will contain it."""
    folder = run.step(task.name).outputs
    folder.mkdir(parents=True, exist_ok=True)
    for name, type_ in task.outputs.items():
        if name == ARTIFACTS:
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(Path("..") / run.step(task.name).code.name)
        elif type_ != "uri_file" and type_ not in PRIMITIVES:
            (folder / name).mkdir(exist_ok=True)  # it exists if it was kept from an earlier attempt


def link_inputs(task: Task, run: RunFolder) -> None:
    """Make links to the inputs. Commands get the real paths, because `cp -r` and `find` stop at links."""
    folder = run.step(task.name).inputs
    for name, source in task.inputs.items():
        if source is not None and not is_text(source):
            path = render_source(source, task, run, str)
            folder.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):  # a path with text around it may not exist
                (folder / name).symlink_to(path)
