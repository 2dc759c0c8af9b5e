"""Executes a prepared pipeline: the record of it in the event log and MLflow, the result, the outputs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from worldsize.base.system_error import describe_os_error
from worldsize.running import equipment
from worldsize.running.attempt import Surroundings
from worldsize.running.environments.interpreters import Interpreters
from worldsize.running.graph import Graph
from worldsize.running.preparing.preparation import Prepared
from worldsize.running.recording import disclosure, folder, outcome, tracking
from worldsize.running.recording.events import EventLog
from worldsize.running.recording.history import RunRecord
from worldsize.running.results import DONE, Registration, RunResult, RunState, StepResult
from worldsize.running.schedule import Schedule
from worldsize.running.showing.view import Masked, View
from worldsize.running.supervising import interrupts
from worldsize.running.supervising.supervise import Warden
from worldsize.secrecy.masking import Mask

LONGEST_PARAMETER = 500  # characters; more is no parameter but data


def execute(
    prepared: Prepared,
    place: folder.RunFolder,
    home: Path,
    tracker: tracking.Tracking,
    warden: Warden,
    *,
    view: View,
    begun: float,
    interpreters: Interpreters,
    earlier: RunRecord | None = None,
) -> RunResult:
    """Run every step.

    Args:
        prepared: The pipeline.
        place: The run's folder.
        home: What runs share.
        tracker: The line to MLflow.
        warden: Who forks the guards of the steps.
        view: Shows what goes on.
        begun: The monotonic time at which the user began to wait.
        interpreters: What interprets the steps.
        earlier: What is known of the run, where it is resumed.
    """
    view = Masked(view, prepared.mask)
    _describe(tracker, prepared, place, again=earlier is not None)
    with EventLog(place.events, mask=prepared.mask) as log, _showing(view, prepared.notices):
        event = "run_started" if earlier is None else "run_resumed"
        log.write(event, run=place.id, pipeline=str(prepared.target), steps=list(prepared.tasks))
        with contextlib.ExitStack() as stack:
            caught = stack.enter_context(interrupts.caught())
            asked = equipment.of(
                prepared, place, home, tracker, view, stopping=caught.happened, earlier=earlier, log=log
            )
            equipped = stack.enter_context(asked)
            around = Surroundings(
                place,
                dict(prepared.code),
                prepared.machine,
                log,
                warden,
                experiment=prepared.experiment,
                places=equipped.places,
                interpreters=interpreters,
                mask=prepared.mask,
            )
            steps = _schedule(prepared, around, equipped, view=view, tracker=tracker, caught=caught).execute()
        result = _result(prepared, place, steps, caught.received)
        uri = tracker.uri if tracker.started else None
        result = replace(result, tracking_uri=uri, seconds=time.monotonic() - begun)
        _link_outputs(prepared.graph, place, steps)
        tracker.finish(result.state, result.metrics)
        if tracker.unavailable:
            result = replace(result, untracked=tracker.unavailable, record_incomplete=tracker.incomplete)
            log.write("run_untracked", reason=tracker.unavailable, incomplete=tracker.incomplete)
        log.write("run_ended", state=result.state, seconds=round(result.seconds, 3))
        if log.fault is not None:
            view.warn(f"the event log is incomplete: {describe_os_error(log.fault)}")
    return result


def _describe(
    tracker: tracking.Tracking, prepared: Prepared, place: folder.RunFolder, *, again: bool
) -> None:
    """Tell the tracker what MLflow shall say of the run."""
    parameters = {
        f"{task.name}.{name}": value
        for task in prepared.tasks.values()
        for name, value in disclosure.parameters(task.inputs, LONGEST_PARAMETER, prepared.mask).items()
    }
    name = prepared.job.display_name or prepared.job.name
    tracker.begin(
        prepared.experiment,
        prepared.mask.text(str(name.value)) if name else place.id,
        lambda: tracking.tags(prepared.target, place.id, prepared.target.absolute().parent),
        parameters,
        again=again,
    )


def _schedule(
    prepared: Prepared,
    around: Surroundings,
    equipped: equipment.Equipment,
    *,
    view: View,
    tracker: tracking.Tracking,
    caught: interrupts.Interrupts,
) -> Schedule:
    return Schedule(
        tasks=dict(prepared.tasks),
        around=around,
        view=view,
        tracking=tracker,
        interrupts=caught,
        keep_going=prepared.graph.keep_going,
        expansions=equipped.expansions,
        memory=equipped.memory,
        restarts=equipped.restarts,
        watchers=equipped.watchers,
    )


@contextlib.contextmanager
def _showing(view: View, notices: tuple[str, ...]) -> Iterator[None]:
    for text in notices:
        view.notice(text)
    with view:
        yield


def _result(
    prepared: Prepared, place: folder.RunFolder, steps: Mapping[str, StepResult], signals: list[int]
) -> RunResult:
    states = {step.state for step in steps.values() if step.parent is None}
    state: RunState = "succeeded" if states <= set(DONE) else "failed"
    if signals and state == "failed":
        state = "interrupted"
    return RunResult(
        id=place.id,
        folder=place.root,
        state=state,
        steps=steps,
        metrics=outcome.metrics(steps),
        registrations=tuple(_masked(each, prepared.mask) for each in outcome.registrations(steps)),
        notices=tuple(map(prepared.mask.text, prepared.notices)),
        signal=signals[0] if signals else None,
    )


def _masked(registration: Registration, mask: Mask) -> Registration:
    """A step has written why it registered nothing, and may have quoted what it was given."""
    return replace(registration, reason=mask.text(registration.reason) if registration.reason else None)


def _link_outputs(graph: Graph, place: folder.RunFolder, steps: Mapping[str, StepResult]) -> None:
    """Links to the outputs that the pipeline declares: what a user looks for first."""
    for name, output in graph.outputs.items():
        made = steps[output.step].outputs.get(output.port)
        if made is None or not made.exists():
            continue
        with contextlib.suppress(OSError):
            place.outputs.mkdir(exist_ok=True)
            (place.outputs / name).symlink_to(made)
