"""What follows when a step ends: its result, the steps that it frees or stops, and further children."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from worldsize.running.engine.attempt import Attempt, Outcome, RunContext
from worldsize.running.engine.extensions import Extensions
from worldsize.running.engine.steps import ScheduledStep, StepTable
from worldsize.running.model.results import DONE, Failure, StepResult, StepState
from worldsize.running.model.task import Task
from worldsize.running.model.view import View
from worldsize.running.record.tracking import Tracking


@dataclass(frozen=True, slots=True)
class Settler:
    """Gives steps their results.

    With ``keep_going`` a failed step stops no other; only the steps that need its outputs do not start.
    """

    steps: StepTable
    context: RunContext
    extensions: Extensions
    view: View
    tracking: Tracking
    keep_going: bool

    def end_attempt(self, step: ScheduledStep, attempt: Attempt, outcome: Outcome) -> None:
        """Start a step again after a pause, or give it its result."""
        failure, seconds = outcome.failure, None
        if failure is not None and not self.steps.stopping:
            seconds = self.extensions.restarts.after(attempt, failure)
        if failure is None or seconds is None:
            self.tracking.end(step.name, outcome.state)
            self.settle(step, outcome.state, failure)
            return
        pause = round(seconds, 3)
        self.context.log.write(
            "step_restarts", step=step.name, attempt=attempt.number, reason=failure.message, seconds=pause
        )
        self.view.notice(f"{step.name}: {failure.message}; it starts again in {seconds:.1f} s")
        self.steps.rest(step, seconds)
        self.change(step, "waiting")

    def settle(self, step: ScheduledStep, state: StepState, failure: Failure | None) -> None:
        """Give a step its result, and free or stop the others."""
        self.conclude(step, state, failure)
        if state == "succeeded":
            self.extensions.cache.keep(step.task, step.status.seconds)
        if step.parent is not None:
            self._end_child(step.parent, step)
        elif state in DONE:
            self.steps.release_readers(step)
        elif state == "failed" and not self.keep_going:
            self.steps.stop()
        elif state == "failed":
            self.steps.release_optional_readers(step)

    def expand(self, step: ScheduledStep) -> None:
        """Let a step turn into others; it is over when they are."""
        assert step.expansion is not None
        step.status.started = time.monotonic()
        self.steps.expanded.append(step)
        self.tracking.request(step.name, self.extensions.cache.key(step.task))
        self.context.log.write("step_started", step=step.name, attempt=1, processes=[])
        self.change(step, "running")
        self._add_children(step, step.expansion.begin())

    def change(self, step: ScheduledStep, state: StepState) -> None:
        """Show a step's new state."""
        if step.status.state != state:
            step.status.state = state
            self.view.changed(step.status)

    def conclude(self, step: ScheduledStep, state: StepState, failure: Failure | None) -> None:
        """Write down how a step ended."""
        status, folder = step.status, self.context.run.step(step.name)
        if status.started is not None:
            status.seconds = time.monotonic() - status.started
        summary = step.expansion.summary if step.expansion is not None else None
        step.result = StepResult(
            name=step.name,
            state=state,
            seconds=status.seconds,
            folder=folder.root,
            outputs={name: folder.outputs / name for name in step.task.outputs},
            failure=failure,
            parent=step.parent.name if step.parent is not None else None,
            summary=self.context.mask.text(summary) if summary else summary,
        )
        self.context.log.write(
            "step_ended",
            step=step.name,
            state=state,
            seconds=round(status.seconds, 3),
            reason=failure.message if failure else None,
            last_lines=list(failure.last_lines) if failure else [],
        )
        self.change(step, state)

    def _end_child(self, parent: ScheduledStep, child: ScheduledStep) -> None:
        assert parent.expansion is not None
        assert child.result is not None
        parent.children.discard(child.name)
        following = parent.expansion.ended(child.name, child.result)
        if not self.steps.stopping:
            self._add_children(parent, following)

    def _add_children(self, parent: ScheduledStep, children: Sequence[Task]) -> None:
        """Add the children that follow; without any the parent is over."""
        assert parent.expansion is not None
        for task in children:
            self.context.code[task.name] = self.context.code[parent.name]
            self.steps.add_child(task, parent)
        if parent.expansion.done and not parent.children:
            self.steps.expanded.remove(parent)
            failure = parent.expansion.finish()
            state: StepState = "succeeded" if failure is None else "failed"
            self.tracking.end(parent.name, state)
            self.settle(parent, state, failure)
