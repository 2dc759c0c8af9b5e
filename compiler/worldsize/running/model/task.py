"""The steps of a pipeline that can be run here, each input traced to its source."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from worldsize.azureml.model import Component, Step
from worldsize.base.span import Span
from worldsize.running.model.launched import count_launched
from worldsize.running.model.source import Output, Source, list_steps

if TYPE_CHECKING:
    from worldsize.running.model.sweep import SweepPlan

KINDS = ("command", "sweep", "parallel")

CHECKPOINTS = "checkpoints"  # the output from which a step's next attempt resumes


@dataclass(frozen=True, slots=True)
class Task:
    """One step that can be run here.

    ``inputs`` holds every declared input; None is an optional one without a value. ``outputs`` gives
    the type of each output. ``timeout`` is in seconds.
    """

    name: str
    component: Component
    folder: Path  # the component's code is relative to it
    launcher: str = "none"
    instance_count: int = 1
    process_count_per_instance: int = 1
    worker_count: int | None = None  # TensorFlow's, which starts workers and not processes of an instance
    parameter_server_count: int = 0
    gpus_per_process: int = 1  # where there are any
    inputs: Mapping[str, Source | None] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    display_name: str | None = None
    timeout: int | None = None
    kind: str = "command"  # one of KINDS
    step: Step | None = None  # as in the file
    span: Span | None = None  # of its name there

    @property
    def command(self) -> str:
        """The command with its placeholders."""
        assert self.component.command is not None
        return str(self.component.command.value)

    @property
    def world_size(self) -> int:
        """Processes that train; parameter servers are not among them."""
        if self.worker_count is not None:
            return self.worker_count
        return self.instance_count * self.process_count_per_instance

    @property
    def process_count(self) -> int:
        """Processes that are started."""
        return self.world_size + self.parameter_server_count

    @property
    def launched_processes(self) -> int:
        """What a launcher in the command starts for each of them; 1 without one."""
        return count_launched(self.command, self.inputs, self.instance_count) if self.component.command else 1

    @property
    def rank_count(self) -> int:
        """Processes that train, also those that a launcher in the command starts."""
        return self.world_size * self.launched_processes

    @property
    def needs(self) -> frozenset[str]:
        """The steps whose outputs this one reads."""
        return frozenset(name for source in self.inputs.values() if source for name in list_steps(source))

    def requires(self, step: str) -> bool:
        """Whether a required input reads an output of a step."""
        return any(
            step in list_steps(source)
            for name, source in self.inputs.items()
            if source is not None and not self._may_miss(name)
        )

    def without(self, failed: Collection[str]) -> Task:
        """The task once steps have failed: optional inputs that read their outputs have no value."""

        def failed_in(source: Source) -> bool:
            return any(name in failed for name in list_steps(source))

        inputs = {
            name: None if self._may_miss(name) and source and failed_in(source) else source
            for name, source in self.inputs.items()
        }
        return replace(self, inputs=inputs)

    def _may_miss(self, name: str) -> bool:
        port = self.component.inputs.get(name)
        return port is not None and port.optional


def keeps_checkpoints(task: Task) -> bool:
    """Whether a step declares the output from which another attempt resumes."""
    return CHECKPOINTS in task.outputs


@dataclass(frozen=True, slots=True)
class Graph:
    """The tasks of a pipeline."""

    tasks: Mapping[str, Task]  # by name; those of a pipeline component are called `outer.inner`
    outputs: Mapping[str, Output]  # what the pipeline itself declares, and the step's output that it is
    notices: tuple[str, ...] = ()  # what to say before it runs
    sweeps: Mapping[str, SweepPlan] = field(default_factory=dict)  # what each step of kind `sweep` tries
    keep_going: bool = False  # whether steps that do not need a failed one still run
    force_rerun: bool = False  # whether no step takes over what an earlier run has made
    secrets: frozenset[str] = frozenset()  # values that came through a name which says that they are secret
