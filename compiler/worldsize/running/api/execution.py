"""Executes a prepared pipeline with the extensions of its options; records it and makes its result."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from worldsize.base.wording import describe_os_error
from worldsize.documents.secrecy.masking import Mask
from worldsize.running.engine.attempt import RunContext
from worldsize.running.engine.restarts import Restarting, RestartPolicy
from worldsize.running.engine.schedule import Schedule, catch_signals
from worldsize.running.engine.steps import Extensions
from worldsize.running.engine.sweep import make_sweeps
from worldsize.running.environments.interpreters import Interpreters
from worldsize.running.faults.hangs import HangWatcher
from worldsize.running.faults.injection import FaultInjector
from worldsize.running.faults.rehearsal import Rehearsal, describe_schedule, draw_faults
from worldsize.running.launch.redaction import redact_parameters
from worldsize.running.launch.supervisor import Supervisor
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.results import DONE, Registration, RunResult, RunState, StepResult, View
from worldsize.running.model.task import Graph, keeps_checkpoints
from worldsize.running.prepare.preparation import Prepared
from worldsize.running.record.events import EventLog
from worldsize.running.record.history import RunRecord
from worldsize.running.record.reports import read_metrics, read_registrations
from worldsize.running.record.tracking import Tracking, run_tags
from worldsize.running.reuse.step_cache import make_step_cache
from worldsize.running.reuse.store import Store
from worldsize.running.show.views import MaskedView

LONGEST_PARAMETER = 500  # characters; a longer text is data
SPARE_RESTARTS = 2  # of a rehearsal, in addition to those that its faults cause


@dataclass(frozen=True, slots=True)
class Services:
    """The processes that serve a run, and the folder that runs share."""

    home: Path  # what runs share
    tracking: Tracking  # the line to MLflow
    supervisor: Supervisor  # forks the guards of the steps


def execute(
    prepared: Prepared,
    folder: RunFolder,
    services: Services,
    *,
    view: View,
    began: float,
    interpreters: Interpreters,
    earlier: RunRecord | None = None,
) -> RunResult:
    """Run every step of a prepared pipeline.

    ``began`` is the monotonic time at which the user began to wait; ``earlier`` is the record of a run that
    is resumed.
    """
    view, tracking = MaskedView(view, prepared.mask), services.tracking
    _describe_run(tracking, prepared, folder, again=earlier is not None)
    with EventLog(folder.events, mask=prepared.mask) as log, _show(view, prepared.notices):
        if earlier is not None and earlier.died is not None:
            log.write("run_died", earlier.died)  # the files that tell when it did are written again
        event = "run_started" if earlier is None else "run_resumed"
        log.write(event, run=folder.id, pipeline=str(prepared.target), steps=list(prepared.tasks))
        context = RunContext(
            folder,
            dict(prepared.code),
            prepared.machine,
            log,
            services.supervisor,
            experiment=prepared.experiment,
            interpreters=interpreters,
            places=prepared.emulation.places,
            mask=prepared.mask,
            environment=prepared.environments.mode,
        )
        with (
            catch_signals() as interrupts,
            make_extensions(
                prepared, context, services, view, stopping=interrupts.happened, earlier=earlier
            ) as extensions,
        ):
            steps = Schedule(
                prepared.tasks,
                context,
                extensions,
                view=view,
                tracking=tracking,
                interrupts=interrupts,
                keep_going=prepared.graph.keep_going,
            ).execute()
        result = _make_result(prepared, folder, steps, interrupts.received)
        result = replace(result, seconds=time.monotonic() - began)
        _link_outputs(prepared.graph, folder, steps)
        result = _finish_tracking(tracking, result, log)
        log.write("run_ended", state=result.state, seconds=round(result.seconds, 3))
        if log.fault is not None:
            view.warn(f"the event log is incomplete: {describe_os_error(log.fault)}")
    return result


def _finish_tracking(tracking: Tracking, result: RunResult, log: EventLog) -> RunResult:
    """Close the record in MLflow; the result says where it is and what it lacks."""
    result = replace(result, tracking_uri=tracking.uri if tracking.started else None)
    tracking.finish(result.state, result.metrics)
    if tracking.unavailable:
        result = replace(result, untracked=tracking.unavailable, record_incomplete=tracking.incomplete)
        log.write("run_untracked", reason=tracking.unavailable, incomplete=tracking.incomplete)
    return result


def _describe_run(tracking: Tracking, prepared: Prepared, folder: RunFolder, *, again: bool) -> None:
    """Send the tracker what MLflow shows of the run."""
    parameters = {
        f"{task.name}.{name}": value
        for task in prepared.tasks.values()
        for name, value in redact_parameters(task.inputs, LONGEST_PARAMETER, prepared.mask).items()
    }
    name = prepared.job.display_name or prepared.job.name
    tracking.begin(
        prepared.experiment,
        prepared.mask.text(str(name.value)) if name else folder.id,
        lambda: run_tags(prepared.target, folder.id, prepared.target.absolute().parent),
        parameters,
        again=again,
        run_id=folder.id if folder.name_step is not None else None,
        name_step=folder.name_step,
    )


@contextlib.contextmanager
def _show(view: View, notices: tuple[str, ...]) -> Iterator[None]:
    for text in notices:
        view.notice(text)
    with view:
        yield


def _make_result(
    prepared: Prepared, folder: RunFolder, steps: Mapping[str, StepResult], signals: list[int]
) -> RunResult:
    states = {step.state for step in steps.values() if step.parent is None}
    state: RunState = "succeeded" if states <= set(DONE) else "failed"
    if signals and state == "failed":
        state = "interrupted"
    return RunResult(
        id=folder.id,
        folder=folder.root,
        state=state,
        steps=steps,
        metrics=read_metrics(steps),
        registrations=tuple(_mask_registration(each, prepared.mask) for each in read_registrations(steps)),
        notices=tuple(map(prepared.mask.text, prepared.notices)),
        signal=signals[0] if signals else None,
    )


def _mask_registration(registration: Registration, mask: Mask) -> Registration:
    """Mask the reason that a step wrote for not registering, which may quote its inputs."""
    return replace(registration, reason=mask.text(registration.reason) if registration.reason else None)


def _link_outputs(graph: Graph, folder: RunFolder, steps: Mapping[str, StepResult]) -> None:
    """Link the outputs that the pipeline declares, which users look for first."""
    for name, output in graph.outputs.items():
        path = steps[output.step].outputs.get(output.port)
        if path is not None and path.exists():
            with contextlib.suppress(OSError):
                folder.outputs.mkdir(exist_ok=True)
                (folder.outputs / name).symlink_to(path)


@contextlib.contextmanager
def make_extensions(
    prepared: Prepared,
    context: RunContext,
    services: Services,
    view: View,
    *,
    stopping: Callable[[], bool],
    earlier: RunRecord | None,
) -> Iterator[Extensions]:
    """Add what the options of a run ask for to its schedule, until the run ends."""
    run, emulation, max_restarts = context.run, prepared.emulation, prepared.options.max_restarts
    injection = FaultInjector(emulation.faults, emulation.namespaces, view.notice)
    rehearsal = _plan_rehearsal(prepared, view)
    restarts = {} if max_restarts is not None else _count_restarts(prepared, rehearsal)
    store = Store(services.home)
    yield Extensions(
        cache=make_step_cache(prepared, run, store, view.notice, stopping=stopping, earlier=earlier),
        restarts=Restarting(RestartPolicy(max_restarts or 0, seed=run.id), restarts, view.notice),
        watchers=[HangWatcher(view.notice), injection, rehearsal],
        expansions=make_sweeps(
            prepared.graph.sweeps, prepared.tasks, run, services.tracking, log=context.log
        ),
    )
    injection.account()
    for line in rehearsal.report():
        view.notice(line)


def _plan_rehearsal(prepared: Prepared, view: View) -> Rehearsal:
    """Plan what ``--chaos`` asks for; without it nothing happens."""
    seed, networks = prepared.options.chaos, prepared.emulation.namespaces
    if seed is None:
        return Rehearsal({}, networks, view.notice)
    plans = {
        name: draw_faults(seed, name, task.world_size, task.instance_count if networks else 0)
        for name, task in prepared.tasks.items()
        if keeps_checkpoints(task)
    }
    for line in describe_schedule(seed, plans):
        view.notice(line)
    return Rehearsal(plans, networks, view.notice)


def _count_restarts(prepared: Prepared, rehearsal: Rehearsal) -> dict[str, int]:
    """The restarts of each step: as many as its spec says, and those that a rehearsal needs."""
    restarts = dict(prepared.restarts)
    for name, faults in rehearsal.plans.items():
        needed = sum(fault.ends_attempt for fault in faults)
        restarts[name] = max(restarts.get(name, 0), needed + SPARE_RESTARTS if needed else 0)
    return restarts
