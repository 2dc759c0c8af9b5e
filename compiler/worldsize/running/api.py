"""`worldsize.run`: a spec or any pipeline of command steps, executed on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from worldsize.azureml import distribution
from worldsize.azureml import job as jobs
from worldsize.azureml.files import Files
from worldsize.azureml.model import Job
from worldsize.azureml.snapshot import Snapshot
from worldsize.running import (
    contract,
    fit,
    folder,
    interrupts,
    machine,
    outcome,
    preview,
    programs,
    sources,
    tasks,
    tracking,
    workplace,
)
from worldsize.running.attempt import Surroundings
from worldsize.running.errors import RunError
from worldsize.running.events import EventLog
from worldsize.running.machine import Machine
from worldsize.running.options import RunOptions
from worldsize.running.processes import Process
from worldsize.running.results import RunResult, RunState, StepResult
from worldsize.running.schedule import Schedule
from worldsize.running.supervise import Warden
from worldsize.running.tasks import Task
from worldsize.running.view import Quiet, View

Target = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pipeline that can run here: read, fitted to the machine, its code at hand."""

    target: Path  # what the user named
    job: Job
    tasks: Mapping[str, Task]
    code: Mapping[str, Snapshot]
    machine: Machine
    notices: tuple[str, ...]

    @property
    def experiment(self) -> str:
        """The experiment's name; without one the name of the file."""
        name = self.job.experiment_name
        return str(name.value) if name is not None and name.value else self.target.stem


def run(
    target: Target,
    options: RunOptions = RunOptions(),
    *,
    runs_dir: Target = folder.HOME,
    track: bool = True,
    view: View | None = None,
) -> RunResult:
    """Run a spec, a compiled pipeline or a native Azure ML pipeline or command job on this machine.

    A spec is checked, planned and compiled first; what runs is the compiled pipeline. A plan for more
    processes than there are GPUs (or cores) runs with as many as fit and more accumulation, so that the
    global batch stays the same.

    Args:
        target: The spec or job file.
        options: How to run it.
        runs_dir: Where runs, MLflow's database and artifacts are kept.
        track: Whether MLflow records the run; without MLflow installed it does not, and says so.
        view: Shows what goes on; by default nothing does.

    Returns:
        The finished run. A failed step is no exception: see :attr:`RunResult.state`.

    Raises:
        SpecError: The spec or job has errors. Nothing was started.
        RunError: It cannot be run on this machine. Nothing was started.
        OSError: The runs' folder cannot be written.
    """
    home, path = Path(runs_dir), Path(target)
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        place = folder.create(home)
        # Both start now, so that they are ready when the pipeline is.
        tracker = stack.enter_context(tracking.Tracking(home, wanted=track))
        tracker.start()
        environment = contract.inherited(contract.interpreter_folder(place.root))
        warden = stack.enter_context(Warden(environment))
        try:
            prepared = prepare(path, place.pipeline, options)
        except BaseException:
            shutil.rmtree(place.root, ignore_errors=True)
            raise
        return _execute(prepared, place, tracker, warden, view=view or Quiet(), begun=begun)


def dry_run(target: Target, options: RunOptions = RunOptions()) -> dict[str, tuple[Process, ...]]:
    """The processes that :func:`run` would start, by step; nothing is started or kept.

    Raises:
        SpecError: The spec or job has errors.
        RunError: It cannot be run on this machine.
    """
    with tempfile.TemporaryDirectory() as temporary:
        prepared = prepare(Path(target), Path(temporary) / "pipeline", options)
        return preview.plan(prepared.tasks, prepared.machine, prepared.experiment)


def prepare(target: Path, pipeline: Path, options: RunOptions = RunOptions()) -> Prepared:
    """Compile a spec, read the pipeline, fit it to the machine; find every reason not to start.

    Args:
        target: What the user named.
        pipeline: Where a spec is compiled to.
        options: How to run it.
    """
    path = _pipeline(target, pipeline)
    files = Files()
    job, problems = jobs.read(path, files)
    texts = {document.path: document.source for document in files.documents.values()}
    if job is None or problems:
        raise RunError(problems, texts)
    found, problems = tasks.of(job)
    if problems:
        raise RunError(problems, texts)
    here = machine.detect()
    fitted = fit.fit(found, path, here, options.processes)
    code, missing = workplace.snapshots(fitted.tasks)
    missing += programs.missing(job, fitted.tasks)
    if fitted.problems or missing:
        raise RunError([*fitted.problems, *missing], texts)
    notices = [*fitted.notices, *_overridden(fitted.tasks)]
    return Prepared(target, job, fitted.tasks, code, here, tuple(notices))


def _pipeline(target: Path, out: Path) -> Path:
    """The job file: the target itself, checked, or what the spec compiles to."""
    from worldsize import checking  # noqa: PLC0415 - the callers' import of this module stays quick
    from worldsize.compiling import compile as compile_spec  # noqa: PLC0415
    from worldsize.errors import SpecError  # noqa: PLC0415
    from worldsize.yaml import Mapping as YamlMapping  # noqa: PLC0415
    from worldsize.yaml import load  # noqa: PLC0415

    root = load(target).root
    if isinstance(root, YamlMapping) and ("jobs" in root or "command" in root or "type" in root):
        report = checking.check([target])
        if report.errors:
            raise SpecError(report.diagnostics, report.sources)
        return target
    return compile_spec(target, out).pipeline


def _execute(
    prepared: Prepared,
    place: folder.RunFolder,
    tracker: tracking.Tracking,
    warden: Warden,
    *,
    view: View,
    begun: float,
) -> RunResult:
    parameters = {
        f"{task.name}.{name}": source.rendered[:500]
        for task in prepared.tasks.values()
        for name, source in task.inputs.items()
        if isinstance(source, sources.Text)
    }
    tags = tracking.tags(prepared.target, place.id, prepared.target.absolute().parent)
    name = prepared.job.display_name or prepared.job.name
    tracker.begin(prepared.experiment, str(name.value) if name else place.id, tags, parameters)
    with EventLog(place.events) as log, _showing(view, prepared.notices):
        log.write("run_started", run=place.id, pipeline=str(prepared.target), steps=list(prepared.tasks))
        with interrupts.caught() as caught:
            around = Surroundings(
                place, dict(prepared.code), prepared.machine, log, warden, experiment=prepared.experiment
            )
            schedule = Schedule(
                tasks=dict(prepared.tasks),
                around=around,
                view=view,
                tracking=tracker,
                interrupts=caught,
                keep_going=_keeps_going(prepared.job),
            )
            steps = schedule.execute()
        result = _result(prepared, place, steps, caught.received)
        result = replace(result, tracking_uri=tracker.uri, seconds=time.monotonic() - begun)
        log.write("run_ended", state=result.state, seconds=round(result.seconds, 3))
        if log.fault is not None:
            view.notice(f"the event log is incomplete: {(log.fault.strerror or str(log.fault)).lower()}")
    _link_outputs(prepared.job, place, steps)
    tracker.finish(result.state, result.metrics)
    return result


@contextlib.contextmanager
def _showing(view: View, notices: tuple[str, ...]) -> Iterator[None]:
    for text in notices:
        view.notice(text)
    with view:
        yield


def _result(
    prepared: Prepared, place: folder.RunFolder, steps: Mapping[str, StepResult], signals: list[int]
) -> RunResult:
    states = {step.state for step in steps.values()}
    state: RunState = "succeeded" if states <= {"succeeded", "reused"} else "failed"
    if signals and state == "failed":
        state = "interrupted"
    return RunResult(
        id=place.id,
        folder=place.root,
        state=state,
        steps=steps,
        metrics=outcome.metrics(steps),
        registrations=outcome.registrations(steps),
        notices=prepared.notices,
        signal=signals[0] if signals else None,
    )


def _link_outputs(job: Job, place: folder.RunFolder, steps: Mapping[str, StepResult]) -> None:
    """Links to the outputs that the pipeline declares: what a user looks for first."""
    for step in job.steps.values():
        for name, setting in step.outputs.items():
            bound = setting.value.binding
            made = steps[step.name].outputs.get(name)
            if bound is None or bound.value.port is None or made is None or not made.exists():
                continue
            with contextlib.suppress(OSError):
                place.outputs.mkdir(exist_ok=True)
                (place.outputs / bound.value.port).symlink_to(made)


def _keeps_going(job: Job) -> bool:
    """Whether steps that do not need a failed one still run."""
    given = distribution.member(job.settings, "continue_on_step_failure")
    return given is not None and str(given.value).lower() == "true"


def _overridden(found: Mapping[str, Task]) -> Iterator[str]:
    for task in found.values():
        for name in contract.overridden(task):
            yield f"{task.name}: `{name}` of `environment_variables` has no effect: Azure ML sets it itself"
    for name in contract.not_passed_on(found.values()):
        yield f"`{name}` is set where this was called; it is not passed on, because each process gets its own"
