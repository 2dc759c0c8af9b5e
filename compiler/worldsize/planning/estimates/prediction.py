"""The speed that was planned for a training, as the inputs that carry it to the trainer and its records."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from worldsize.azureml import literals
from worldsize.planning.estimates.model import Case, Interval

SPEED = "predicted_samples_per_second"
LOW, HIGH, CLUSTER = f"{SPEED}_low", f"{SPEED}_high", "predicted_cluster"
INPUTS = (SPEED, LOW, HIGH, CLUSTER)
_DIGITS = 4  # more than any estimate knows, and the same on every machine
_CLUSTER = re.compile(r"(\d{1,9}) x (\S{1,200}), (\d{1,9}) GPUs?")


class Prediction(Struct, frozen=True):
    """A planned speed, and the cluster that it was planned for."""

    samples_per_second: Interval
    instance_count: int
    instance_type: str
    world_size: int

    @property
    def cluster(self) -> str:
        """``4 × Standard_ND96isr_H100_v5``."""
        return f"{self.instance_count} × {self.instance_type}"


def write_inputs(case: Case, speed: Interval) -> dict[str, float | str]:
    """A prediction as inputs of a training step, by name; none for a cluster without a VM size."""
    cluster = case.cluster
    if cluster.instance_type is None:
        return {}
    rounded = [float(f"{value:.{_DIGITS}g}") for value in (speed.expected, speed.low, speed.high)]
    gpus = f"{cluster.world_size} GPU{'s' if cluster.world_size > 1 else ''}"
    return {
        **dict(zip((SPEED, LOW, HIGH), rounded, strict=True)),
        CLUSTER: f"{cluster.instance_count} x {cluster.instance_type}, {gpus}",  # ASCII in every shell
    }


def read_prediction(inputs: Mapping[str, str]) -> Prediction | None:
    """The prediction among the inputs of a step, as it ran; None if it is missing or incomplete."""
    cluster = _CLUSTER.fullmatch(inputs.get(CLUSTER, ""))
    expected, low, high = (read_number(inputs, name) for name in (SPEED, LOW, HIGH))
    if cluster is None or expected is None or low is None or high is None:
        return None
    if not 0 < low <= expected <= high:
        return None
    return Prediction(Interval(low, expected, high), int(cluster[1]), cluster[2], int(cluster[3]))


def read_number(inputs: Mapping[str, str], name: str) -> float | None:
    """The number among the inputs of a step, as it ran; None if it has none of this name."""
    return literals.parse_number(inputs.get(name, ""))
