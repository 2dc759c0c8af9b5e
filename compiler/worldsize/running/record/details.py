"""What is shown of a run beside its record: its outputs, and what its steps report in files."""

from __future__ import annotations

import contextlib
import math
import shutil
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from worldsize.base import untrusted
from worldsize.documents.diagnostics.snippet import flatten
from worldsize.facts import gpus
from worldsize.planning.estimates.calibration import SPEED, Speed, ran_without_gpus
from worldsize.running.launch.logs import Follower, last_lines
from worldsize.running.launch.machine import detect_gpu_products
from worldsize.running.model.folder import RunFolder, StepFolder
from worldsize.running.model.results import Progress, Registration, list_outputs
from worldsize.running.record.history import RunRecord, StepRecord
from worldsize.running.record.json_files import parse_object, read_json


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
        return [model for step in self._run.steps.values() for model in self.step_registrations(step)]

    def step_registrations(self, step: StepRecord) -> Sequence[Registration]:
        """The models that a step has registered, or did not."""
        return read_registrations({step.name: self._output_paths(step)})

    def step_outputs(self, step: StepRecord) -> Mapping[str, str]:
        """Outputs that exist and are not empty."""
        return {name: str(path) for name, path in self._output_paths(step).items()}

    def _output_paths(self, step: StepRecord) -> dict[str, Path]:
        try:
            listed = sorted(self._folder(step).outputs.iterdir())
            return {
                path.name: path.resolve()
                for path in listed
                if path.exists() and (not path.is_dir() or next(path.iterdir(), None) is not None)
            }
        except (OSError, ValueError):  # the step's name may contain any character
            return {}

    def metrics(self, step: StepRecord) -> Mapping[str, float]:
        """What the step has written as its metrics."""
        return read_metrics({step.name: self._output_paths(step)})

    def _folder(self, step: StepRecord) -> StepFolder:
        return RunFolder(self._run.root).step(step.name)

    def speeds(self) -> Mapping[str, Speed]:
        """What the trainers reported, with the GPU of this machine where they used one."""
        return {
            name: speed if ran_without_gpus(speed) else replace(speed, gpu=find_gpu_here())
            for name, speed in read_speeds(self._run).items()
        }

    def last_lines(self, step: StepRecord, count: int) -> list[str]:
        """From the log, or from the record, where secrets were removed."""
        if step.failed_process is None:
            return []
        log = self._folder(step).logs / f"{step.failed_process}.log"
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


FIRST_STEPS = 3  # left out: they compile, connect and fill caches
MIN_REPORTS = 3
# Standard error of a median over that of a mean, of normal numbers: √(π/2) (Kenney and Keeping 1962, 13.13).
_OF_MEDIAN = math.sqrt(math.pi / 2)


def read_speeds(run: RunRecord) -> dict[str, Speed]:
    """The speed of every step of a run that reported enough; a damaged report is left out."""
    speeds = {}
    for name, step in run.steps.items():
        speed = summarise_speed(_read_reports(RunFolder(run.root).step(name).progress), step.parameters)
        if speed is not None:
            speeds[name] = speed
    return speeds


def find_gpu_here() -> str | None:
    """The short name of this machine's first GPU; None if it has no GPU, or one whose speed is unknown."""
    return _ask_driver(shutil.which("nvidia-smi"))


@cache
def _ask_driver(_program: str | None) -> str | None:
    """Many runs are listed at once, and the driver takes a while."""
    products = detect_gpu_products()
    gpu = gpus.lookup_product(products[0]) if products else None
    return gpu.name if gpu is not None else None


def summarise_speed(reports: Sequence[tuple[int, float]], parameters: Mapping[str, str]) -> Speed | None:
    """The speed of reports, each a count of steps and samples a second; None for fewer than three.

    The first steps are left out.
    """
    kept = [speed for step, speed in reports if step > FIRST_STEPS and math.isfinite(speed) and speed > 0]
    if len(kept) < MIN_REPORTS:
        return None
    deviation = statistics.stdev(map(math.log, kept)) * _OF_MEDIAN / math.sqrt(len(kept))
    return Speed(statistics.median(kept), deviation, parameters)


def _read_reports(path: Path) -> list[tuple[int, float]]:
    with untrusted.passed_over():
        records = (parse_progress(line) for line in untrusted.read_lines(path))
        return [
            (record.step, record.samples_per_second)
            for record in records
            if record is not None and record.step is not None and record.samples_per_second is not None
        ]
    return []


def read_mlflow_speed(run_id: str) -> Speed | None:
    """The speed of a run of the tracking server in use, by all that it logged; None for too little.

    Raises:
        MlflowException: There is no such run, or the server does not answer.
    """
    import mlflow  # takes seconds

    client = mlflow.MlflowClient()
    parameters = client.get_run(run_id).data.params
    history = client.get_metric_history(run_id, SPEED)
    return summarise_speed([(point.step, point.value) for point in history], parameters)


MAX_VALUE = 1e15  # larger counts and losses are ignored
LARGEST_BYTES = 1 << 20
MAIN_LOGS = ("rank-0.log", "worker-0.log")
STOPS_EARLY = "stopping early after step "  # what the built-in trainers begin the reason with
LAST_LINES = 40
MOST_WARNINGS = 3  # of a step


class ProgressFile:
    """Follows the file of WORLDSIZE_PROGRESS, which stays empty if the script ignores it."""

    def __init__(self, path: Path) -> None:
        self._follower = Follower(path)
        self.newest: Progress | None = None

    def read(self) -> Progress | None:
        """Read the new lines; the newest record, if there is any."""
        records = filter(None, map(parse_progress, reversed(self._follower.lines())))
        self.newest = next(records, self.newest)
        return self.newest


def parse_progress(line: str) -> Progress | None:
    """Parse one line of a user's script, which may contain anything; None if it is not a record."""
    document = parse_object(line)
    if document is None:
        return None
    numbers = {name: _to_number(document.get(name)) for name in Progress.__struct_fields__}
    counts = {name: numbers.pop(name) for name in ("step", "total_steps")}
    step, total = (None if count is None or math.isnan(count) else int(count) for count in counts.values())
    return Progress(step, total, **numbers)


def describe_early_end(progress: Progress | None, logs: Path) -> str | None:
    """Where a step that has succeeded ended before its last step; why, if the built-in trainers wrote it."""
    if progress is None or progress.step is None or progress.step >= (progress.total_steps or 0):
        return None
    where = f"ended at step {progress.step} of {progress.total_steps}"
    for name in MAIN_LOGS:
        for line in last_lines(logs / name, LAST_LINES):
            if line.startswith(STOPS_EARLY):
                return f"{where}: {flatten(line.partition(': ')[2])}"
    return where


def list_warnings(logs: Path) -> list[str]:
    """The last warnings of the components in a step's main log, which `print_warning` wrote."""
    lines = [line for name in MAIN_LOGS for line in last_lines(logs / name, LAST_LINES)]
    return [*dict.fromkeys(flatten(line) for line in lines if line.startswith("warning: "))][-MOST_WARNINGS:]


def _to_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_VALUE:
        return None
    return float(value)


def read_metrics(outputs: Mapping[str, Mapping[str, Path]]) -> dict[str, float]:
    """The numbers of every ``metrics.json`` in the outputs of steps, by name.

    A repeated name gets the step's name as prefix.
    """
    metrics: dict[str, float] = {}
    for step, document in _read_documents(outputs, "metrics.json"):
        for name, value in document.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
                    metrics[f"{step}.{name}" if name in metrics else name] = float(value)
    return metrics


def read_registrations(outputs: Mapping[str, Mapping[str, Path]]) -> tuple[Registration, ...]:
    """The models of every ``registration.json`` in the outputs of steps."""
    return tuple(
        Registration(
            str(document["name"]),
            str(document["version"]) if document.get("version") is not None else None,
            str(document["reason"]) if document.get("reason") else None,
        )
        for _, document in _read_documents(outputs, "registration.json")
        if "name" in document
    )


def _read_documents(
    outputs: Mapping[str, Mapping[str, Path]], name: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    for step, folders in outputs.items():
        for folder in folders.values():
            document = read_json(folder / name, LARGEST_BYTES)
            if document is not None:
                yield step, document
