"""A measured speed beside the predicted one, which is comparable only on what it was predicted for."""

from __future__ import annotations

from msgspec import Struct

from worldsize.azureml import literals
from worldsize.facts import gpus, vm_sizes
from worldsize.planning.estimates.clusters import find_gpu
from worldsize.planning.estimates.prediction import Prediction, read_prediction
from worldsize.resolving.measured_case import Speed


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
    size = vm_sizes.lookup(prediction.instance_type)
    planned = find_gpu(size) if size is not None else None
    used = speed.gpu or _find_logged_gpu(speed)
    ranks = literals.parse_number(speed.parameters.get("world_size", ""))
    return planned is not None and used == planned.name and ranks == prediction.world_size


def _find_logged_gpu(speed: Speed) -> str | None:
    """The GPU that the trainer logged, by its short name."""
    gpu = gpus.lookup_product(speed.parameters.get("device", ""))
    return gpu.name if gpu is not None else None
