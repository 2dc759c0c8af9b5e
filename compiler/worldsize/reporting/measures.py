"""Measured speed, time and memory of a training beside the predictions that it was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from worldsize.base.wording import format_duration, format_seconds, format_size, show_digits, show_number
from worldsize.planning.estimates.calibration import SPEED
from worldsize.planning.estimates.measured_case import describe_other_hardware
from worldsize.planning.estimates.model import Interval
from worldsize.planning.estimates.prediction import read_number, read_prediction
from worldsize.planning.memory.workload import PREDICTION
from worldsize.planning.quantities import label_quantity
from worldsize.reporting.model import Attempt, Quantity, read_mapping
from worldsize.showing.curves import Curve

PREDICTED_SPEED = "predicted_samples_per_second"
MEMORY = "memory_peak_bytes"
_SMALL = 0.05  # a share of the planned memory within which the plan is as good as it can be


class Trained(NamedTuple):
    """The time of a training by its reports; restarts are left out."""

    steps: float  # between the first and the last report
    seconds: float  # of these steps
    total: float  # of all steps, the first ones included
    reached: float  # the step of the last report


def measure_training(reports: Sequence[Mapping[str, Any]]) -> Trained | None:
    """How long the training steps took, without validation and checkpoints; None if that is unknown."""
    steps = seconds = total = 0.0
    last: tuple[float, float] | None = None
    for report in reports:
        now = report.get("step"), report.get("trained_seconds")
        if not all(isinstance(value, int | float) and 0 <= value < 1e12 for value in now):
            continue
        step, trained = (float(value) for value in now if value is not None)
        if last is not None and step > last[0] and trained >= last[1]:
            steps += step - last[0]
            seconds += trained - last[1]
            total += trained - last[1]
        elif last is None or trained < last[1]:  # it began, or began again
            total += trained
        last = step, trained
    return Trained(steps, seconds, total, last[0]) if steps and seconds and last is not None else None


def compare_measures(
    parameters: Mapping[str, str],
    topology: Mapping[str, Any],
    logged: Mapping[str, float],
    curves: Mapping[str, Curve],
    trained: Trained | None,
) -> list[Quantity]:
    """Speed, time of the training steps and memory, of what :func:`compare_with_plan` is given."""
    speeds = [value for _, value in curves.get(SPEED, ())]
    speed = sorted(speeds)[len(speeds) // 2] if speeds else logged.get(SPEED)
    prediction = read_prediction(parameters)
    predicted = prediction.samples_per_second if prediction is not None else None
    size, ranks = str(topology.get("instance_type") or ""), topology.get("world_size")
    if prediction is not None:
        size, ranks = prediction.instance_type, prediction.world_size
    other = describe_other_hardware(parameters, size, ranks if isinstance(ranks, int) else None)
    batch, steps = (read_number(parameters, name) for name in ("global_batch_size", "total_steps"))
    step_time = _divide(batch, predicted)
    compare = partial(_compare, other=other)
    ended = trained is not None and (steps is None or trained.reached >= steps)
    total = trained.total if trained is not None and ended else None
    planned_total = step_time.scale(steps) if step_time is not None and steps else None
    quantities = [
        compare(
            "samples per second (median)", predicted, speed, show_digits, bare=logged.get(PREDICTED_SPEED)
        ),
        compare("time of a training step", step_time, _step_time(trained, batch, speed), format_seconds),
        compare("time of all training steps", planned_total, total, format_seconds),
    ]
    planned = read_number(parameters, PREDICTION) or logged.get("memory_predicted_bytes")
    return [*quantities, _compare_memory(planned, logged.get(MEMORY), other)]


def _step_time(trained: Trained | None, batch: float | None, speed: float | None) -> float | None:
    if trained is not None:
        return trained.seconds / trained.steps
    return batch / speed if batch and speed else None


def _compare(
    name: str,
    predicted: Interval | None,
    measured: float | None,
    show: Callable[[float], str],
    *,
    other: str,
    bare: float | None = None,
) -> Quantity:
    """A measure beside its interval, or beside a prediction without bounds."""
    actual = "" if measured is None else show(measured)
    if predicted is None:
        return Quantity(name, "" if bare is None else show(bare), actual, "", differs=False)
    planned = f"{show(predicted.expected)} ({show(predicted.low)} to {show(predicted.high)})"
    if measured is None:
        return Quantity(name, planned, actual)
    if other:
        return Quantity(name, planned, actual, f"not comparable: {other}", differs=False)
    inside = predicted.low <= measured <= predicted.high
    note = "within the interval" if inside else _say_difference(measured, predicted.expected)
    return Quantity(name, planned, actual, note, differs=not inside)


def _compare_memory(planned: float | None, measured: float | None, other: str) -> Quantity:
    name = "peak memory of a process"
    expected, actual = (
        "" if amount is None else format_size(round(amount)) for amount in (planned, measured)
    )
    if not planned or measured is None:
        return Quantity(name, expected, actual)
    if other:
        return Quantity(name, expected, actual, f"not comparable: {other}", differs=False)
    return Quantity(
        name, expected, actual, _say_difference(measured, planned), differs=measured > planned * (1 + _SMALL)
    )


def _say_difference(measured: float, planned: float) -> str:
    ratio = measured / planned
    if ratio >= 2:
        return f"{show_digits(ratio)} times the plan"
    share = f"{abs(1 - ratio):.0%}".replace("%", " %")
    return "as planned" if share == "0 %" else f"{share} {'below' if ratio < 1 else 'above'} the plan"


def _divide(value: float | None, by: Interval | None) -> Interval | None:
    """The time of an amount at a speed: the highest speed gives the lowest time."""
    return None if not value or by is None else Interval(value / by.high, value / by.expected, value / by.low)


_SET = (
    "batch_size_per_device",
    "gradient_accumulation_steps",
    "global_batch_size",
    "learning_rate",
    "optimizer",
    "epochs",
    "warmup_epochs",
)
_COUNTED = ("rows", "steps_per_epoch", "total_steps", "warmup_steps")


def compare_with_plan(
    plan: Mapping[str, Any],
    parameters: Mapping[str, str],
    attempts: Sequence[Attempt],
    logged: Mapping[str, float],
    curves: Mapping[str, Curve],
    *,
    trained: Trained | None = None,
    machine: str = "this machine",
) -> list[Quantity]:
    """The quantities of one step; none for a step that is neither planned nor measured.

    Args:
        plan: Of the step, from ``plan.json``; empty where nothing was planned.
        parameters: That the step ran with, and those that it logged.
        attempts: Of the step; the last one counts.
        logged: The last values of what it logged.
        curves: That it logged.
        trained: The time of its training steps.
        machine: Where it ran.
    """
    training, topology = read_mapping(plan.get("training")), read_mapping(plan.get("topology"))
    if not training and SPEED not in curves and SPEED not in logged:
        return []
    started = len(attempts[-1].names) if attempts else 0
    world = parameters.get("world_size") or (str(started) if started else "")
    quantities = [Quantity("processes", _show(topology.get("world_size")), world)]
    instances = " × ".join(
        _show(topology[name]) for name in ("instance_count", "instance_type") if topology.get(name)
    )
    quantities.append(Quantity("instances", instances, machine if attempts else ""))
    values = [(name, _show(parameters.get(name))) for name in _SET]
    values += [(name, _count(name, parameters, curves)) for name in _COUNTED]
    quantities += [Quantity(label_quantity(name), _show(training.get(name)), value) for name, value in values]
    quantities += compare_measures(parameters, topology, logged, curves, trained)
    seconds = sum(attempt.period.seconds for attempt in attempts)
    quantities.append(Quantity("time of the step", "", format_duration(seconds) if attempts else ""))
    return [quantity for quantity in quantities if quantity.planned or quantity.actual]


def _count(name: str, parameters: Mapping[str, str], curves: Mapping[str, Curve]) -> str:
    """A count that the training has logged; of the steps, those that were done."""
    if name == "total_steps" and "loss" in curves:
        return show_number(curves["loss"][-1][0])
    return _show(parameters.get(name))


def _show(value: Any) -> str:
    if value is None or isinstance(value, bool | Mapping | list):
        return ""
    if isinstance(value, str):
        try:
            value = float(value)  # `20` and `20.0` are the same plan
        except ValueError:
            return str(value)
    return show_number(value)
