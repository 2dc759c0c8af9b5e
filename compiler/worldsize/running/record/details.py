"""What is shown of a run beside its record: addresses, outputs, metrics and the ends of logs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from worldsize.documents.diagnostics.snippet import flatten
from worldsize.resolving.measured_case import Speed
from worldsize.running.launch.logs import last_lines
from worldsize.running.model.results import Registration, StepResult, list_outputs
from worldsize.running.record.history import RunRecord, StepRecord
from worldsize.running.record.measured_speed import add_gpu, read_speeds
from worldsize.running.record.reports import read_metrics, read_registrations


class RunDetails(Protocol):
    """The details of one run. Outputs and links are absolute paths or addresses."""

    def links(self) -> Mapping[str, str]:
        """Where the run is: its folder, or its page."""

    def outputs(self) -> Mapping[str, str]:
        """The outputs of the pipeline itself, by name."""

    def registrations(self) -> Sequence[Registration]:
        """The models that the steps have registered, or did not."""

    def step_outputs(self, step: StepRecord) -> Mapping[str, str]:
        """The outputs of a step, by name."""

    def metrics(self, step: StepRecord) -> Mapping[str, float]:
        """The metrics of a step, by name."""

    def speeds(self) -> Mapping[str, Speed]:
        """The speed of each step that reported one, by the step's name."""

    def last_lines(self, step: StepRecord, count: int) -> list[str]:
        """The last lines that the process which failed has written."""


class TrackedDetails(RunDetails, Protocol):
    """The details of a run that is elsewhere, with what its steps have logged to MLflow there."""

    @property
    def record(self) -> RunRecord:
        """The run."""

    def parameters(self, step: StepRecord) -> Mapping[str, str]:
        """The parameters that a step has logged, by name."""

    def histories(self, step: StepRecord, limit: int) -> Mapping[str, Sequence[tuple[float, float]]]:
        """The training steps and values of at most ``limit`` metrics of a step, by name."""

    def artifacts(self, step: StepRecord, paths: Sequence[str]) -> Mapping[str, bytes]:
        """The contents of those of these files that a step has logged."""


class LocalDetails:
    """The details of a run of this machine, from its folder."""

    def __init__(self, run: RunRecord) -> None:
        self._run = run

    def links(self) -> Mapping[str, str]:
        """The run's folder."""
        return {"folder": str(self._run.root.absolute())}

    def outputs(self) -> Mapping[str, str]:
        """The links that the run has made to its outputs."""
        return {name: str(path.absolute()) for name, path in list_outputs(self._run.root).items()}

    def registrations(self) -> Sequence[Registration]:
        """What the steps have written of them."""
        return read_registrations({name: self._result(step) for name, step in self._run.steps.items()})

    def step_outputs(self, step: StepRecord) -> Mapping[str, str]:
        """Outputs that exist and are not empty."""
        return {name: str(path) for name, path in self._output_paths(step).items()}

    def _output_paths(self, step: StepRecord) -> dict[str, Path]:
        folder = self._run.root / "steps" / step.name / "outputs"
        try:
            listed = sorted(folder.iterdir())
            return {
                path.name: path.resolve()
                for path in listed
                if path.exists() and (not path.is_dir() or next(path.iterdir(), None) is not None)
            }
        except (OSError, ValueError):  # the step's name may contain any character
            return {}

    def metrics(self, step: StepRecord) -> Mapping[str, float]:
        """What the step has written as its metrics."""
        return read_metrics({step.name: self._result(step)})

    def _result(self, step: StepRecord) -> StepResult:
        root = self._run.root / "steps" / step.name
        return StepResult(step.name, "succeeded", 0.0, root, self._output_paths(step))

    def speeds(self) -> Mapping[str, Speed]:
        """What the trainers reported, with the GPU of this machine where they used one."""
        return {name: add_gpu(speed) for name, speed in read_speeds(self._run.root).items()}

    def last_lines(self, step: StepRecord, count: int) -> list[str]:
        """From the log, or from the record, where secrets were removed."""
        if step.failed_process is None:
            return []
        log = self._run.root / "steps" / step.name / "logs" / f"{step.failed_process}.log"
        lines = last_lines(log, count) if step.last_lines is None else step.last_lines[-count:]
        return [flatten(line.expandtabs()) for line in lines]


def name_values(metrics: Iterable[tuple[str, Mapping[str, float]]]) -> dict[str, float]:
    """The finite metrics of steps by name, and by ``step.name``; of several steps the last one counts."""
    values: dict[str, float] = {}
    for step, by_name in metrics:
        for name, value in by_name.items():
            if math.isfinite(value):
                values[name] = values[f"{step}.{name}"] = value
    return values
