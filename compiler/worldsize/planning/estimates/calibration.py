"""What measured steps say: by which factors a workload computes and exchanges slower than estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from worldsize.planning.estimates import processes
from worldsize.planning.estimates.model import Case

SPEED = "samples_per_second"  # the metric that trainers log

# Shares of the logarithm of a factor that another GPU keeps, and what the interval widens by: a factor has
# causes in software, which travel, and in the hardware, which do not. An even split has the least error
# where nothing tells them apart.
_KEPT_ELSEWHERE = 0.5
_OTHER_GPU = 0.06  # of the same architecture
_OTHER_ARCHITECTURE = 0.12
_OTHER_PRECISION = 0.10
_OTHER_WORKLOAD = 0.06  # of the same kind
_OTHER_TRAINING = 0.05  # another strategy, recomputation or optimizer


class Measurement(Struct, frozen=True):
    """The steps of one run: the question that it answers, and their time."""

    case: Case
    step_seconds: float  # the median of its steps
    deviation: float = 0.0  # standard error of the logarithm of the median; 0 where it is unknown


class Calibration(Struct, frozen=True):
    """Factors on the times of computation and of exchanges, and the measurements that they rest on."""

    compute: float = 1.0
    network: float = 1.0
    measured: tuple[Measurement, ...] = ()
    network_is_measured: bool = False  # apart from computation
    residual: float = 0.0  # standard deviation of the logarithms of measured over calibrated times


class Carried(Struct, frozen=True):
    """A calibration as another case keeps it."""

    calibration: Calibration
    widening: float = 0.0  # half of what the interval widens by, as a natural logarithm
    reasons: tuple[str, ...] = ()  # in what the case differs


NOT_CALIBRATED = Calibration()


def carry(calibration: Calibration, case: Case) -> Carried:
    """What a case keeps of a calibration, by the measured case that is most like it.

    Another architecture or precision keeps half of the logarithm of the factor on computation, another kind
    of workload none of it. Another kind of network keeps nothing of the factor on exchanges. Processes tell
    nothing of GPUs, nor GPUs of them.
    """
    alike = [run.case for run in calibration.measured if _is_comparable(run.case, case)]
    if not alike:
        return Carried(NOT_CALIBRATED)
    kept, widening, reasons = min(
        (_sum_differences(measured, case) for measured in alike), key=lambda x: x[1]
    )
    networks = {measured.cluster.rdma for measured in alike if measured.cluster.instance_count > 1}
    same_network = case.cluster.instance_count == 1 or not networks or case.cluster.rdma in networks
    carried = replace(
        calibration,
        compute=calibration.compute**kept,
        network=calibration.network if same_network else 1.0,
        network_is_measured=calibration.network_is_measured and same_network,
    )
    return Carried(carried, widening, reasons if same_network else (*reasons, "another kind of network"))


def _sum_differences(measured: Case, case: Case) -> tuple[float, float, tuple[str, ...]]:
    """The share of the factor on computation that is kept, the widening, the reasons."""
    differences = _compare(measured, case)
    kept = math.prod(share for share, _, _ in differences)
    return kept, math.hypot(*(wider for _, wider, _ in differences)), tuple(why for *_, why in differences)


def _compare(measured: Case, case: Case) -> list[tuple[float, float, str]]:
    """Differences: the share of the factor that is kept, the widening, and its name."""
    differences: list[tuple[float, float, str]] = []
    gpu, other = measured.cluster.gpu, case.cluster.gpu
    if gpu.architecture != other.architecture:
        differences.append((_KEPT_ELSEWHERE, _OTHER_ARCHITECTURE, f"measured on {gpu.name}"))
    elif gpu.name != other.name:
        differences.append((1.0, _OTHER_GPU, f"measured on {gpu.name}"))
    before, after = measured.training, case.training
    if before.precision != after.precision:
        differences.append((_KEPT_ELSEWHERE, _OTHER_PRECISION, f"measured in {before.precision}"))
    if type(measured.workload) is not type(case.workload):
        differences.append((0.0, math.inf, "measured on another kind of workload"))
    elif measured.workload != case.workload:
        differences.append((1.0, _OTHER_WORKLOAD, "measured on another workload"))
    names = ("strategy", "zero_stage", "recomputation", "optimizer")
    changed = [name.replace("_", " ") for name in names if getattr(before, name) != getattr(after, name)]
    return [*differences, *((1.0, _OTHER_TRAINING, f"measured with another {name}") for name in changed)]


def _is_comparable(measured: Case, case: Case) -> bool:
    """Whether both are of GPUs, or both of processes, which have no known speed, and one kind of workload."""
    if not processes.is_process(case.cluster):
        return not processes.is_process(measured.cluster)
    return processes.is_process(measured.cluster) and type(measured.workload) is type(case.workload)


class Speed(Struct, frozen=True):
    """The speed of one training step over all its ranks, and the inputs that it ran with, by name."""

    samples_per_second: float  # the median of its reports
    deviation: float  # standard error of the logarithm of that median; 0 where it is unknown
    parameters: Mapping[str, str]
    gpu: str | None = None  # of the machine that it ran on, if that is not the planned one


def ran_without_gpus(speed: Speed) -> bool:
    """Whether the ranks were processes on cores, by the plan or by what the trainer logged."""
    planned, device = (speed.parameters.get(name) for name in ("planned_gpus_per_instance", "device"))
    return planned in (None, "0", "0.0") or device == "cpu"
