"""Inputs and outputs as a command sees them: text and paths."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from worldsize.running.recording.folder import RunFolder
from worldsize.running.starting import sources
from worldsize.running.starting.sources import ARTIFACTS, File, Joined, Output, Source, Text
from worldsize.running.tasks import Task


@dataclass(frozen=True, slots=True)
class Values:
    """What the placeholders of a command stand for.

    ``literals`` are rendered as Azure ML renders them; ``data`` are paths of inputs; ``absent`` are
    optional inputs without a value.
    """

    literals: Mapping[str, str]
    data: Mapping[str, str]
    absent: frozenset[str]
    outputs: Mapping[str, str]

    @property
    def inputs(self) -> dict[str, str | None]:
        """Every input by name, None for an absent one."""
        return {**self.literals, **self.data, **dict.fromkeys(self.absent)}


def resolve(task: Task, run: RunFolder, show: Callable[[Path], str] = str) -> Values:
    """The values of a task in a run.

    Args:
        task: The step.
        run: Where the run keeps its steps.
        show: How paths of data outside the run are written; a dry run shows them relative.
    """
    literals: dict[str, str] = {}
    data: dict[str, str] = {}
    for name, source in task.inputs.items():
        if source is not None:
            (literals if sources.is_text(source) else data)[name] = _text(source, task, run, show)
    return Values(
        literals,
        data,
        frozenset(name for name, source in task.inputs.items() if source is None),
        {name: _output(task.name, name, run) for name in task.outputs},
    )


def prepare_outputs(task: Task, run: RunFolder) -> None:
    """Make the place of every output: a folder, but of a ``uri_file`` only the folder it will lie in."""
    folder = run.step(task.name).outputs
    folder.mkdir(parents=True, exist_ok=True)
    for name, type_ in task.outputs.items():
        if name == ARTIFACTS:
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(Path("..") / run.step(task.name).code.name)
        elif type_ != "uri_file":
            (folder / name).mkdir(exist_ok=True)  # one that survived an earlier try is there


def link_inputs(task: Task, run: RunFolder) -> None:
    """Leave links to what the step reads. Commands get the real paths: `cp -r` and `find` stop at links."""
    folder = run.step(task.name).inputs
    for name, source in task.inputs.items():
        if source is not None and not sources.is_text(source):
            path = _text(source, task, run, str)
            folder.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):  # a text around a path need not be one
                (folder / name).symlink_to(path)


def _text(source: Source, task: Task, run: RunFolder, show: Callable[[Path], str]) -> str:
    if isinstance(source, Text):
        return source.rendered
    if isinstance(source, File):
        return show(source.path.absolute())
    if isinstance(source, Output):
        return _output(source.step, source.port, run)
    if isinstance(source, Joined):
        return "".join(_text(part, task, run, show) for part in source.parts)
    return f"{run.id}_{task.name}"  # as AZUREML_RUN_ID has it


def _output(step: str, port: str, run: RunFolder) -> str:
    folder = run.step(step)
    # The working folder is where ./outputs and ./logs lie.
    path = folder.code if port == ARTIFACTS else folder.outputs / port
    return str(path.resolve() if path.is_symlink() else path)  # a step that was reused has links
