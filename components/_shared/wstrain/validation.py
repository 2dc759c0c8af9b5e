"""When a training is validated, which checkpoint is the best, and when it stops early; for every framework.

The state travels in the card of every checkpoint, so a training that is killed and resumed finds the same
best checkpoint and stops at the same step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wsmetrics.names import goal, metrics_with_goal
from wsshards.errors import UserError
from wsshards.manifest import Manifest
from wstrain.hooks import Hooks
from wstrain.settings import Settings

MAXIMIZE, MINIMIZE = "maximize", "minimize"


@dataclass(frozen=True, slots=True)
class ValidationSchedule:
    """When a validation is due: at multiples of the intervals, and after the last step.

    Attributes:
        intervals: in optimizer steps; none switches validation off.
        total_steps: of the whole training.
    """

    intervals: tuple[int, ...] = ()
    total_steps: int = 0

    def is_due(self, done: int) -> bool:
        """Whether to validate after ``done`` steps."""
        if not self.intervals or done < 1:
            return False
        return done == self.total_steps or any(done % interval == 0 for interval in self.intervals)


def make_validation_schedule(settings: Settings, steps: Mapping[str, int], rows: int) -> ValidationSchedule:
    """Return when the training is validated.

    Args:
        settings: the component's inputs.
        steps: from :func:`wstrain.run_facts.count_steps`.
        rows: of the validation split; without any there is nothing to validate on.

    Raises:
        UserError: the training is to stop early, but it is never validated.
    """
    intervals = []
    if settings.validate_every_epochs > 0:
        intervals.append(max(1, round(settings.validate_every_epochs * steps["steps_per_epoch"])))
    if settings.validate_every_steps > 0:
        intervals.append(settings.validate_every_steps)
    if settings.early_stopping_patience > 0 and not (intervals and rows):
        patience = settings.early_stopping_patience
        if not intervals:
            raise UserError(
                f"`early_stopping_patience` is {patience}, but validation is off:"
                " `validate_every_epochs` and `validate_every_steps` are 0",
                "set `validate_every_epochs` to 1, or `early_stopping_patience` to 0",
            )
        raise UserError(
            f"`early_stopping_patience` is {patience}, but the shards have no validation rows",
            "shard the data with a `validation_fraction` above 0, or set `early_stopping_patience` to 0",
        )
    return ValidationSchedule(tuple(intervals) if rows else (), steps["total_steps"])


@dataclass
class ValidationController:
    """Follows one validation metric: which step was best, and whether to go on.

    Every rank has one and gives it the same values, so all decide alike. The best step is the one with the
    best value, however small the difference. Patience counts validations in a row that are not better than
    the last counted improvement by more than ``min_delta``.

    Args:
        schedule: when a validation is due.
        metric: its name without ``validation_``.
        goal: ``minimize`` or ``maximize``.
        patience: validations without improvement after which training stops; 0 for never.
        min_delta: what a smaller difference is not an improvement for.
    """

    schedule: ValidationSchedule
    metric: str = "loss"
    goal: str = MINIMIZE
    patience: int = 0
    min_delta: float = 0.0
    best_value: float | None = field(default=None, init=False)
    best_step: int | None = field(default=None, init=False)
    last_step: int = field(default=0, init=False)  # of the last validation
    without_improvement: int = field(default=0, init=False)
    best_threshold: float | None = field(default=None, init=False)  # of the decision between two classes
    last_threshold: float | None = field(default=None, init=False)
    _reference: float | None = field(default=None, init=False)

    @property
    def should_stop(self) -> bool:
        """Whether patience has run out."""
        return self.patience > 0 and self.without_improvement >= self.patience

    def is_due(self, done: int) -> bool:
        """Whether to validate after ``done`` steps; not twice after the same ones."""
        return self.schedule.is_due(done) and self.last_step < done

    def note(self, done: int, metrics: Mapping[str, float], threshold: float | None = None) -> bool:
        """Take in a validation.

        Args:
            done: finished optimizer steps.
            metrics: what it measured; the same on every rank.
            threshold: the probability from which on the second of two classes is best said.

        Returns:
            Whether this is the best step so far. A value that is not a number never is.

        Raises:
            UserError: the metric could not be computed from these rows.
        """
        if self.metric not in metrics:
            known = ", ".join(f"`{name}`" for name in metrics)
            raise UserError(
                f"`best_metric` `{self.metric}` cannot be computed from these validation rows",
                f"use one of {known}, or shard more validation rows",
            )
        value = float(metrics[self.metric])
        self.last_step, self.last_threshold = done, threshold
        best = self._is_better(value, self.best_value, 0.0)
        if best:
            self.best_value, self.best_step, self.best_threshold = value, done, threshold
        if self._is_better(value, self._reference, self.min_delta):
            self._reference, self.without_improvement = value, 0
        else:
            self.without_improvement += 1
        return best

    def state(self) -> dict[str, Any]:
        """Return what the card of a checkpoint keeps; JSON."""
        return {
            "metric": self.metric,
            "best_value": self.best_value,
            "best_step": self.best_step,
            "last_step": self.last_step,
            "without_improvement": self.without_improvement,
            "reference": self._reference,
            "best_threshold": self.best_threshold,
            "last_threshold": self.last_threshold,
        }

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Continue from the state on a checkpoint's card; False if it follows another metric, or none."""
        if state.get("metric") != self.metric:
            return False
        self.best_value, self.best_step = state["best_value"], state["best_step"]
        self.last_step, self.without_improvement = state["last_step"], state["without_improvement"]
        self._reference = state["reference"]
        # Cards of earlier versions have none.
        self.best_threshold, self.last_threshold = state.get("best_threshold"), state.get("last_threshold")
        return True

    def forget_best(self) -> None:
        """Seek the best step anew, as its checkpoint is gone; patience goes on."""
        self.best_value = self.best_step = None

    def describe(self) -> str:
        """Return the best step and its value, such as ``validation_loss 0.1234 at step 60``."""
        return f"validation_{self.metric} {self.best_value:.6g} at step {self.best_step}"

    def _is_better(self, value: float, than: float | None, margin: float) -> bool:
        if not math.isfinite(value):
            return False
        if than is None:
            return True
        return than - value > margin if self.goal == MINIMIZE else value - than > margin


def decision_facts(controller: ValidationController | None, exported: int) -> dict[str, float]:
    """Return the decision threshold of two classes at the exported step, as a model keeps it."""
    threshold = None
    if controller is not None and controller.last_step == exported:
        threshold = controller.last_threshold
    elif controller is not None and controller.best_step == exported:
        threshold = controller.best_threshold
    return {} if threshold is None else {"decision_threshold": threshold}


def cut_blocks(rows: int, size: int) -> list[range]:
    """Cut row numbers into blocks of ``size``, the last one shorter; the same at any world size."""
    return [range(start, min(start + size, rows)) for start in range(0, rows, size)]


def share_blocks(blocks: int, replica: int, replicas: int) -> Iterator[tuple[int, bool]]:
    """Yield a replica's blocks, and whether each counts.

    Every replica gets the same number of them, as a forward pass may need all ranks: one that runs out
    repeats the first block, which does not count.
    """
    for start in range(0, blocks, replicas):
        number = start + replica
        yield (number, True) if number < blocks else (0, False)


def make_controller(
    settings: Settings, manifest: Manifest, steps: Mapping[str, int], hooks: Hooks | None
) -> ValidationController:
    """Return what follows the metric that chooses the best checkpoint.

    Args:
        settings: the component's inputs.
        manifest: the shards'.
        steps: from :func:`wstrain.run_facts.count_steps`.
        hooks: the user's; only a validation shows which metrics they return.

    Raises:
        UserError: the task has no such metric, or ``best_metric_goal`` is missing or wrong, or see
            :func:`make_validation_schedule`.
    """
    metric, direction = settings.best_metric, settings.best_metric_goal
    known = metrics_with_goal(manifest.task)
    if metric in known:
        if direction not in ("auto", goal(metric)):
            raise UserError(
                f"`best_metric_goal` is `{direction}`, but `{metric}` is better the"
                f" {'higher' if goal(metric) == MAXIMIZE else 'lower'} it is",
                "leave `best_metric_goal` out",
            )
        direction = goal(metric)
    elif hooks is None or hooks.metrics is None:
        raise UserError(
            f"`best_metric` `{metric}` is not a metric of the task {manifest.task}",
            f"use one of {', '.join(f'`{name}`' for name in known)}",
        )
    elif direction == "auto":
        raise UserError(
            f"`best_metric` `{metric}` is to come from `metrics` in `{hooks.file}`, and it is not known"
            " whether more or less of it is better",
            "set `best_metric_goal` to `maximize` or `minimize`",
        )
    return ValidationController(
        make_validation_schedule(settings, steps, manifest.validation.rows),
        metric,
        direction,
        settings.early_stopping_patience,
        settings.early_stopping_min_delta,
    )


def describe_export(settings: Settings, controller: ValidationController | None, exported: int) -> str:
    """Say which weights are exported, and why; without a controller nothing was validated."""
    if settings.export == "best" and controller is not None and controller.best_step == exported:
        return f"exporting the weights of step {exported}, the best: {controller.describe()}"
    reason = "`export` is `last`"
    if settings.export == "best":
        validated = controller is not None and controller.schedule.intervals
        reason = "no validation had a finite value" if validated else "there was no validation"
    return f"exporting the weights of the last step, {exported}: {reason}"
