"""Reads a run for its report, of this machine or of a workspace; what is missing or damaged is left out."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base import limits, untrusted
from worldsize.base.wording import plural
from worldsize.documents.secrecy.masking import HIDDEN
from worldsize.documents.yaml.load import load, to_python
from worldsize.planning.memory.workload import PREDICTION
from worldsize.reporting.curves import (
    MAX_CURVES,
    LoggedDetails,
    make_curves,
    parse_reports,
    read_earlier_reports,
    read_number,
    read_rank_samples,
    read_reports,
    read_tracked,
    read_tracked_values,
    reported_curves,
)
from worldsize.reporting.event_files import read_event_files
from worldsize.reporting.measures import compare_with_plan, measure_training
from worldsize.reporting.model import Attempt, Period, Picture, RunFacts, StepFacts, read_mapping
from worldsize.reporting.sweeps import read_sweeps
from worldsize.running.model.folder import HOME, StepFolder, show_path
from worldsize.running.record.details import TrackedDetails
from worldsize.running.record.history import RunRecord, StepRecord, load_run, parse_time
from worldsize.running.record.json_files import read_json
from worldsize.running.reuse.store import find_original
from worldsize.showing.curves import Curve, is_finite, join_curves
from worldsize.tracking import runs

LAST_LINES = 20
MAX_CURVE_STEPS = 60  # whose curves are read: trials of a large sweep beyond are in the table only
MAX_PICTURE_BYTES = 400_000  # of all pictures
PICTURES = {
    "confusion_matrix.png": "Confusion matrix",
    "roc_curve.png": "ROC curve",
    "predictions.png": "Predictions against true values",
}
_PNG = b"\x89PNG\r\n\x1a\n"


def read_run(root: Path) -> RunFacts:
    """All that is known of a run, by its folder."""
    return _Reader(root).read()


class _Trained(Struct, frozen=True):
    """What a step reported for the live view, and what it logged to MLflow."""

    reports: Sequence[Mapping[str, Any]]
    curves: Mapping[str, Curve]
    logged: Mapping[str, float]  # last values
    parameters: Mapping[str, str]
    written: Mapping[str, float] = {}  # the last values for TensorBoard, of what does neither


class _Reader:
    """Reads the files of one run, each once."""

    def __init__(self, root: Path) -> None:
        self.now = datetime.now(timezone.utc)
        self.record = load_run(root)
        self.details = LoggedDetails(self.record)
        self.home = root.absolute().parent.parent
        self.plans = read_mapping((read_json(root / "pipeline" / "plan.json") or {}).get("steps"))
        self.compiled = _read_compiled(root / "pipeline" / "pipeline.yml")
        self.sweeps = read_sweeps(self.record)
        self.swept = {sweep.step for sweep in self.sweeps}
        self._tracked: dict[str, dict[str, str]] = {}
        self._picture_bytes = 0
        self._curve_steps = 0

    def read(self) -> RunFacts:
        """Read them."""
        record = self.record
        running = self.now.timestamp() if record.state == "running" else None
        attempts = read_attempts(record.events, now=running)
        steps = {name: self._step(step, attempts.get(name, [])) for name, step in record.steps.items()}
        return RunFacts(
            record=record,
            steps=steps,
            read_at=self.now,
            links=self.details.links(),
            outputs=self.details.outputs(),
            environment=describe_environment(
                record, read_tracked(runs.read_shared_tags, self.home, record.id)
            ),
            registered=[
                (model, step.parameters.get("gate", ""))
                for step in record.steps.values()
                for model in self.details.step_registrations(step)
            ],
            sweeps=self.sweeps,
            pauses=read_pauses(record.events),
            notes=list(self._notes()),
        )

    def _notes(self) -> Sequence[str]:
        record, notes = self.record, []
        if record.damaged:
            lines = plural(record.damaged, "line")
            verb = "is" if record.damaged == 1 else "are"
            notes.append(f"{lines} of the event log cannot be read and {verb} left out.")
        if record.started is None:
            notes.append("The beginning of the event log is missing.")
        if record.state == "died":
            notes.append(
                f"The run stopped without recording its end: worldsize resume {record.id} continues it."
            )
        if record.resumed:
            notes.append(
                "The run was resumed " + ("once." if record.resumed == 1 else f"{record.resumed} times.")
            )
        if any(event["event"] == "run_untracked" for event in record.events):
            notes.append("MLflow's record of the run is missing or incomplete.")
        notes += [f"{step.name}: {text}" for step in record.steps.values() for text in step.warnings]
        return notes

    def _step(self, step: StepRecord, attempts: Sequence[Attempt]) -> StepFacts:
        trained = self._read_training(step)
        outputs = self.details.step_outputs(step)
        owner = step.name.rpartition(".")[0]  # of a trial, which has the plan of its sweep
        plan = self.plans.get(step.name, self.plans.get(owner))
        is_sweep = step.name in self.swept
        # The runner withdraws the planned memory where it changes the processes.
        parameters = {**self._planned_memory(step.name, owner), **trained.parameters, **step.parameters}
        is_written = self.details.has_written(step)
        measured = {
            name: value
            for name, value in self.details.metrics(step).items()
            if is_written or not (trained.reports or name in trained.curves)
        }
        return StepFacts(
            record=step,
            attempts=attempts,
            metrics={**trained.written, **measured},
            logged=trained.logged,
            outputs=outputs,
            curves=trained.curves,
            ranks=read_rank_samples(trained.reports),
            pictures=() if is_sweep else self._pictures(outputs),
            quantities=()
            if is_sweep
            else compare_with_plan(
                read_mapping(plan),
                parameters,
                attempts,
                trained.logged,
                trained.curves,
                trained=measure_training(trained.reports),
            ),
            last_lines=self.details.last_lines(step, LAST_LINES) if step.state == "failed" else (),
        )

    def _planned_memory(self, *names: str) -> dict[str, str]:
        """The memory of a process that the compiled pipeline plans for a step, which may be a trial."""
        for name in names:
            value = read_mapping(read_mapping(self.compiled.get(name)).get("inputs")).get(PREDICTION)
            if isinstance(value, int | float):
                return {PREDICTION: str(value)}
        return {}

    def _read_training(self, step: StepRecord) -> _Trained:
        """What a step reported and logged; that of the original where it was reused."""
        original = find_original(self.record.root, step.name)
        run, name = original.run, original.step
        folder = self.home / "runs" / run / "steps" / name
        reports = read_reports(folder / "progress.jsonl")
        logged = _last_values(reports)
        self._curve_steps += bool(reports)
        if self._curve_steps > MAX_CURVE_STEPS:
            return _Trained(reports, {}, logged, {})
        if run not in self._tracked:
            self._tracked[run] = read_tracked(runs.find_steps, self.home, run)
        tracked = self._tracked[run].get(name)
        curves = reported_curves([*read_earlier_reports(folder), *reports])
        written: dict[str, float] = {}
        if not curves:  # the built-in trainers report; a script of one's own may write for TensorBoard
            step_folder = StepFolder(folder)
            curves = make_curves(read_event_files(step_folder.code, step_folder.outputs))
            written = {name: points[-1][1] for name, points in curves.items() if points}
        if tracked is None:
            return _Trained(reports, curves, logged, {}, written)
        return _Trained(
            reports,
            join_curves(curves, make_curves(read_tracked(runs.read_curves, self.home, tracked))),
            {**logged, **read_tracked_values(self.home, tracked)},
            read_tracked(runs.read_params, self.home, tracked),
            written,
        )

    def _pictures(self, outputs: Mapping[str, str]) -> list[Picture]:
        """The pictures that `evaluate` has written, as long as there are not too many bytes."""
        pictures = []
        for folder in outputs.values():
            for name, title in PICTURES.items():
                data = _read_png(Path(folder) / name)
                if data and self._picture_bytes + len(data) <= MAX_PICTURE_BYTES:
                    self._picture_bytes += len(data)
                    pictures.append(Picture(title, data))
        return pictures


def _read_compiled(path: Path) -> Mapping[str, Any]:
    """The steps of a compiled pipeline; none if it cannot be read."""
    root = None
    with untrusted.passed_over():
        root = load(path, untrusted.read_bytes(path, limits.RECORD)).root
    return read_mapping(read_mapping(to_python(root)).get("jobs")) if root is not None else {}


def _read_png(path: Path) -> bytes | None:
    data = b""
    with untrusted.passed_over():
        data = untrusted.read_bytes(path, MAX_PICTURE_BYTES)
    return data if data.startswith(_PNG) else None


def _last_values(reports: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    last = {name: read_number(value) for name, value in (reports[-1] if reports else {}).items()}
    return {name: value for name, value in last.items() if value is not None and is_finite(value)}


_COMMIT, _BRANCH, _DIRTY = "mlflow.source.git.commit", "mlflow.source.git.branch", "azureml.git.dirty"
_REPEATED = {"settings": "--set", "assets": "--map", "kill": "--kill", "drop_link": "--drop-link"}


def describe_environment(record: RunRecord, tags: Mapping[str, str]) -> list[tuple[str, str]]:
    """The rows of the table: what is unknown is left out. ``tags`` are those of MLflow."""
    request = record.request
    rows = [
        ("command", _make_command(record)),
        ("working folder", _text(request.get("cwd"))),
        ("commit", _describe_commit(tags)),
        ("user", tags.get("mlflow.user", "")),
        ("seeds", ", ".join(_find_seeds(record))),
        ("worldsize", _text(request.get("worldsize"))),
        ("Python", _text(request.get("python"))),
        ("MLflow", "not tracked" if request.get("track") is False else ""),
    ]
    return [(name, text) for name, text in rows if text]


def _make_command(record: RunRecord) -> str:
    request = record.request
    if not request.get("target"):
        return ""
    words = ["worldsize", "run", _text(request.get("reference")) or show_path(Path(_text(request["target"])))]
    for name, value in read_mapping(request.get("options")).items():
        words += _make_option(str(name), value, request)
    home = show_path(record.root.parent.parent)
    words += ["--runs-dir", home] if home != HOME else []
    words += ["--no-track"] if request.get("track") is False else []
    return shlex.join(words)


def _make_option(name: str, value: Any, request: Mapping[str, Any]) -> Iterator[str]:
    if name in _REPEATED:
        values = [f"{key}={item}" for key, item in read_mapping(value).items()] or (
            value if isinstance(value, list) else []
        )
        withheld = request.get("withheld")
        hidden = withheld if name == "settings" and isinstance(withheld, list) else []
        for pair in [*values, *(f"{key}={HIDDEN}" for key in hidden)]:
            yield from (_REPEATED[name], str(pair))
    elif value is True:
        yield f"--{name.replace('_', '-')}"
    elif value not in (None, False, "processes") or (name == "processes" and value):
        yield from (f"--{name.replace('_', '-')}", str(value))


def _describe_commit(tags: Mapping[str, str]) -> str:
    commit, branch = tags.get(_COMMIT, ""), tags.get(_BRANCH, "")
    if not commit:
        return ""
    changed = ", with changes that are not committed" if tags.get(_DIRTY) == "True" else ""
    return f"{commit} on {branch}{changed}" if branch else f"{commit}{changed}"


def _find_seeds(record: RunRecord) -> Iterator[str]:
    for step in record.steps.values():
        for name, value in step.parameters.items():
            if name == "seed" or name.endswith(("_seed", "-seed")):
                yield f"{step.name}.{name} {value}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


NOTE = "Logs are in the workspace, and are not part of this page."
RANK_TIMES = "rank_times.jsonl"  # what trainers log at the end of a training
MAX_BYTES = 4_000_000  # of a file that is read from the workspace


def read_job(job: TrackedDetails) -> RunFacts:
    """What a workspace has recorded of a job. Its steps' metrics are read with their histories."""
    record = job.record
    seeds = ", ".join(_find_seeds(record))
    return RunFacts(
        record=record,
        steps=_read_job_steps(job, record.steps.values()),
        read_at=datetime.now(timezone.utc),
        links=job.links(),
        outputs=job.outputs(),
        environment=[("seeds", seeds)] if seeds else [],
        notes=[NOTE],
    )


def _read_job_steps(job: TrackedDetails, steps: Iterable[StepRecord]) -> dict[str, StepFacts]:
    """The steps, with pictures as long as there are not too many bytes."""
    by_name, left = {}, MAX_PICTURE_BYTES
    for step in steps:
        facts = _read_job_step(job, step)
        kept = []
        for picture in facts.pictures:
            if len(picture.data) <= left:
                left -= len(picture.data)
                kept.append(picture)
        by_name[step.name] = replace(facts, pictures=kept)
    return by_name


def _read_job_step(job: TrackedDetails, step: StepRecord) -> StepFacts:
    curves = make_curves(job.histories(step, MAX_CURVES))
    metrics = dict(job.metrics(step))
    attempts = _find_attempt(step)
    parameters = {**job.parameters(step), **step.parameters}
    files = {
        name: content
        for name, content in job.artifacts(step, [*PICTURES, RANK_TIMES]).items()
        if len(content) <= MAX_BYTES
    }
    lines = files.get(RANK_TIMES, b"").decode("utf-8", errors="replace").splitlines()
    reports = list(parse_reports(lines))
    return StepFacts(
        record=step,
        attempts=attempts,
        metrics={} if curves else metrics,
        logged=metrics,
        outputs=job.step_outputs(step),
        curves=curves,
        ranks=read_rank_samples(reports),
        pictures=[
            Picture(title, files[name])
            for name, title in PICTURES.items()
            if name in files and files[name].startswith(_PNG)
        ],
        quantities=compare_with_plan(
            {}, parameters, attempts, metrics, curves, trained=measure_training(reports), machine=""
        ),
        last_lines=job.last_lines(step, LAST_LINES),
    )


def _find_attempt(step: StepRecord) -> list[Attempt]:
    if step.started is None:
        return []
    end = step.started + timedelta(seconds=step.seconds)
    if step.state == "running":
        end = datetime.now(timezone.utc)
    return [Attempt(Period(step.started.timestamp(), end.timestamp()), step.state, {}, step.processes)]


MAX_PROCESSES = 4096  # of one step
Event = Mapping[str, Any]


def read_attempts(events: Sequence[Event], *, now: float | None) -> dict[str, list[Attempt]]:
    """The attempts of each step, the oldest first.

    Args:
        events: Of the run.
        now: The end of attempts that still run; None where the run is over, so that the time of the last
            event ends them.
    """
    attempts: dict[str, list[Attempt]] = {}
    begun: dict[str, tuple[float, list[str], dict[str, float]]] = {}  # attempts that have not ended
    last = 0.0

    def close(name: str, end: float, state: str) -> None:
        if name in begun:
            start, names, ended = begun.pop(name)
            attempt = Attempt(Period(start, max(start, end)), state, ended, names)
            attempts.setdefault(name, []).append(attempt)

    for event, time in _list_timed(events):
        kind, name = event["event"], str(event.get("step"))
        if kind == "run_resumed":  # what was open ended when the last runner did
            for open_step in list(begun):
                close(open_step, last, "died")
        last = max(last, time)
        if kind in ("step_started", "step_restarts", "step_ended"):
            close(name, time, str(event.get("state")) if kind == "step_ended" else "failed")
        if kind == "step_started":
            begun[name] = (time, _name_processes(event), {})
        elif kind == "process_ended" and name in begun:
            begun[name][2][str(event.get("process"))] = time
    for name in list(begun):
        close(name, now if now is not None else last, "running" if now is not None else "died")
    return attempts


def _name_processes(event: Event) -> list[str]:
    listed = event.get("processes")
    described = listed[:MAX_PROCESSES] if isinstance(listed, list) else []
    return [str(process.get("name")) for process in described if isinstance(process, Mapping)]


def _list_timed(events: Sequence[Event]) -> Iterator[tuple[Event, float]]:
    """The events whose times are not damaged, with these."""
    for event in events:
        time = parse_time(event)
        if time is not None:
            yield event, time.timestamp()


def read_pauses(events: Sequence[Event]) -> list[Period]:
    """The times between the last event of a runner and the resumption of its run."""
    pauses, last = [], None
    for event, time in _list_timed(events):
        if event["event"] == "run_resumed" and last is not None and time > last:
            pauses.append(Period(last, time))
        last = time if last is None else max(last, time)
    return pauses
