"""A measured speed beside the predicted one, which is comparable only on what it was predicted for."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from worldsize.azureml import literals
from worldsize.base.wording import plural
from worldsize.facts import gpus, vm_sizes
from worldsize.planning.estimates.calibration import Speed
from worldsize.planning.estimates.clusters import find_gpu
from worldsize.planning.estimates.prediction import Prediction, read_prediction


class ComparedSpeed(Struct, frozen=True):
    """The speed of a training step, and what was predicted; ``ran_there`` says for the same hardware."""

    measured: float  # samples a second
    prediction: Prediction | None
    ran_there: bool

    @property
    def ratio(self) -> float | None:
        """Measured over predicted speed; None where they cannot be compared."""
        if self.prediction is None or not self.ran_there:
            return None
        return self.measured / self.prediction.samples_per_second.expected

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured speed is within the predicted bounds; None where they cannot be compared."""
        if self.prediction is None or not self.ran_there:
            return None
        bounds = self.prediction.samples_per_second
        return bounds.low <= self.measured <= bounds.high


def compare_speed(speed: Speed) -> ComparedSpeed:
    """The speed of a step beside the prediction among its inputs.

    They are comparable if the step ran on as many GPUs as were planned, of the planned kind.
    """
    prediction = read_prediction(speed.parameters)
    ran_there = prediction is not None and _ran_as_planned(speed, prediction)
    return ComparedSpeed(speed.samples_per_second, prediction, ran_there)


def _ran_as_planned(speed: Speed, prediction: Prediction) -> bool:
    parameters = {**speed.parameters, **({"device": speed.gpu} if speed.gpu else {})}
    return describe_other_hardware(parameters, prediction.instance_type, prediction.world_size) == ""


def describe_other_hardware(parameters: Mapping[str, str], instance_type: str, ranks: int | None) -> str:
    """Why a training tells nothing of what was planned: ``ran on CPU``; empty if it ran as planned.

    Args:
        parameters: What the trainer logged, with its ``device`` and ``world_size``.
        instance_type: The planned VM size.
        ranks: The planned processes; None for any count.
    """
    size = vm_sizes.lookup(instance_type)
    planned = find_gpu(size) if size is not None else None
    device = parameters.get("device", "")
    if device.lower() == "cpu":
        return "ran on CPU"
    used = gpus.lookup_product(device) or gpus.lookup(device)
    if planned is None or used is None:
        return f"ran on {device}" if device else "the hardware was not recorded"
    if used.name != planned.name:
        return f"ran on {used.name}, planned for {planned.name}"
    own = literals.parse_number(parameters.get("world_size", ""))
    if ranks is not None and own != ranks:
        return f"planned for {plural(ranks, 'process')}"
    return ""
