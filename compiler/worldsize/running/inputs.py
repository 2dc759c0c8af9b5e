"""Inputs and outputs as a command sees them: text and paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from worldsize.running.folder import RunFolder
from worldsize.running.sources import ARTIFACTS, File, Output, Text
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
        if isinstance(source, Text):
            literals[name] = source.rendered
        elif source is not None:
            data[name] = _path(source, run, show)
    return Values(
        literals,
        data,
        frozenset(name for name, source in task.inputs.items() if source is None),
        {name: str(run.step(task.name).outputs / name) for name in task.outputs},
    )


def prepare_outputs(task: Task, run: RunFolder) -> None:
    """Make the place of every output: a folder, but of a ``uri_file`` only the folder it will lie in."""
    folder = run.step(task.name).outputs
    folder.mkdir(parents=True)
    for name, type_ in task.outputs.items():
        if type_ != "uri_file":
            (folder / name).mkdir()


def link_inputs(task: Task, run: RunFolder) -> None:
    """Leave links to what the step reads. Commands get the real paths: `cp -r` and `find` stop at links."""
    folder = run.step(task.name).inputs
    for name, source in task.inputs.items():
        if isinstance(source, File | Output):
            folder.mkdir(exist_ok=True)
            (folder / name).symlink_to(_path(source, run, str))


def _path(source: File | Output, run: RunFolder, show: Callable[[Path], str]) -> str:
    if isinstance(source, File):
        return show(source.path.absolute())
    step = run.step(source.step)
    # The working folder is where ./outputs and ./logs lie.
    return str(step.code if source.port == ARTIFACTS else step.outputs / source.port)
