"""The planned numbers of a step beside those that its run had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from worldsize.base.wording import format_duration, show_number
from worldsize.planning.estimates.calibration import SPEED
from worldsize.planning.quantities import label_quantity
from worldsize.reporting.measures import Trained, compare_measures
from worldsize.reporting.model import Attempt, Quantity
from worldsize.showing.curves import Curve

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
    training = plan.get("training")
    training = training if isinstance(training, Mapping) else {}
    topology = plan.get("topology")
    topology = topology if isinstance(topology, Mapping) else {}
    trains = bool(training) or SPEED in curves or SPEED in logged
    if not trains:
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
    seconds = sum(attempt.period.end - attempt.period.start for attempt in attempts)
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
