"""How far a measured speed may be from the estimate."""

from __future__ import annotations

import math

from msgspec import Struct

from worldsize.planning.estimates.calibration import Calibration
from worldsize.planning.estimates.constants import RELATED
from worldsize.planning.estimates.model import Case, Convolutional, Interval, StepTime

# Natural logarithms of measured over estimated speed, within which four of five published speeds lie when
# their model size is left out of the fit (tests/benchmarks/scaling). Independent causes add as squares.
_TRANSFORMER = 0.15
_CONVOLUTIONAL = 0.25
_NO_ACTIVATIONS = 0.3  # a convolutional network whose activations are not given
_RELATED = 0.25  # constants of a related architecture
_NETWORK = 0.5  # of the share of time that exchanges take
_TCP = 0.3  # more of that share: TCP over Ethernet varies more than RDMA
_HOST = 0.5  # of the share of time that launches, stragglers and loops take: hosts differ
_CALIBRATED = 0.04  # steps of one run differ by that


class Spread(Struct, frozen=True):
    """Half the width of an interval, as a natural logarithm, and what it rests on."""

    half: float
    basis: str

    def around(self, expected: float) -> Interval:
        """The interval around an expected value."""
        factor = math.exp(self.half)
        return Interval(expected / factor, expected, expected * factor)


def find_spread(case: Case, parts: StepTime, calibration: Calibration) -> Spread:
    """The spread of an estimate, by what is known of its workload, its GPU and its network."""
    cluster = case.cluster
    exchanged = parts.communication / parts.seconds if parts.seconds else 0.0
    network = exchanged * (_NETWORK + (_TCP if cluster.rdma is False else 0.0))
    if calibration.network_is_measured:
        network = 0.0
    if calibration.measurements:
        half = math.hypot(_CALIBRATED, network)
        return Spread(half, f"{calibration.measurements} measured")
    own = _CONVOLUTIONAL if isinstance(case.workload, Convolutional) else _TRANSFORMER
    if isinstance(case.workload, Convolutional) and case.workload.activation_bytes is None:
        own = math.hypot(own, _NO_ACTIVATIONS)
    host = _HOST * parts.latency / parts.seconds if parts.seconds else 0.0
    related = _RELATED if cluster.gpu.architecture in RELATED else 0.0
    basis = "fitted on published speeds"
    if related:
        basis += f" of {RELATED[cluster.gpu.architecture]} GPUs"
    return Spread(math.sqrt(own**2 + related**2 + network**2 + host**2), basis)
