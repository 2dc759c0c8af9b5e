"""What measured steps say: how much slower or faster a workload computes and exchanges than estimated."""

from __future__ import annotations

from msgspec import Struct


class Calibration(Struct, frozen=True):
    """Factors on the times of computation and of exchanges. ``measurements`` tells what they rest on."""

    compute: float = 1.0
    network: float = 1.0
    measurements: int = 0
    network_is_measured: bool = False


NOT_CALIBRATED = Calibration()
