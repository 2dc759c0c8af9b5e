"""What measured steps say of a workload: how much slower or faster it computes and exchanges than expected."""

from __future__ import annotations

from msgspec import Struct


class Calibration(Struct, frozen=True):
    """Factors on the times of computation and of exchanges. ``measurements`` tells what they rest on."""

    compute: float = 1.0
    network: float = 1.0
    measurements: int = 0
    network_is_measured: bool = False


NOT_CALIBRATED = Calibration()
