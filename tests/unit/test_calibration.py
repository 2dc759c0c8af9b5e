"""A calibration by measured steps: what it reproduces, what it gives back, what other cases keep of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from worldsize.facts import gpus
from worldsize.planning.estimates import processes
from worldsize.planning.estimates.calibrate import calibrate
from worldsize.planning.estimates.calibration import NOT_CALIBRATED, Calibration, Measurement, carry
from worldsize.planning.estimates.constants import fitted
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.model import Case, Cluster, Estimate, Strategy, Training
from worldsize.planning.estimates.step_time import time_step
from worldsize.spec.workload import Convolutional, Transformer

GPT = Transformer(1.3e9, 24, 2048, 16, 50368, 2048)
RESNET = Convolutional(25.6e6, 8.2e9, 130e6)
SMALL = Transformer(0.87e6, 4, 128, 4, 256, 128)
STRATEGIES: tuple[Strategy, ...] = ("ddp", "fsdp", "deepspeed", "horovod")
factors = st.floats(0.2, 5.0)
counts = st.sampled_from([1, 2, 3, 4, 8, 16])


def make_case(instances: int, strategy: Strategy = "ddp", gpu: str = "A100-80GB", gbit: float = 200) -> Case:
    found = gpus.lookup(gpu)
    assert found is not None
    cluster = Cluster(found, 8, instances, found.link_bytes_per_s, gbit / 8 * 1e9, rdma=True)
    precision = "bf16" if "bf16" in found.peak_flops else "fp16"
    return Case(GPT, Training(8, 1, precision, strategy, 3, "full"), cluster)  # type: ignore[arg-type]


def make_process_case(ranks: int, mbit: float = 100, cores: int = 2, strategy: Strategy = "ddp") -> Case:
    link = mbit / 8 * 1e6 if ranks > 1 else None
    return Case(SMALL, Training(4, strategy=strategy), processes.make_cluster(ranks, cores, link))


def measure(case: Case, compute: float, network: float) -> Measurement:
    """What a machine with these factors would measure."""
    known = Calibration(compute, network, (Measurement(case, 1.0),))
    parts = time_step(case, fitted(), known)
    assert parts is not None
    return Measurement(case, parts.seconds)


def answer(case: Case, calibration: Calibration) -> Estimate:
    estimated = estimate(case.workload, case.training, case.cluster, calibration)
    assert estimated is not None
    return estimated


def alone(case: Case) -> Case:
    return replace(case, cluster=replace(case.cluster, gpus_per_instance=1, instance_count=1))


@given(factors, factors, counts, st.sampled_from(STRATEGIES))
def test_one_measurement_is_reproduced(
    compute: float, network: float, instances: int, strategy: Strategy
) -> None:
    measured = measure(make_case(instances, strategy), compute, network)
    calibration = calibrate([measured])
    assert answer(measured.case, calibration).step_seconds.expected == pytest.approx(
        measured.step_seconds, rel=1e-4
    )
    assert not calibration.network_is_measured


@given(factors, factors, st.sampled_from(STRATEGIES))
def test_two_measurements_give_both_factors_back(compute: float, network: float, strategy: Strategy) -> None:
    whole = make_process_case(2, strategy=strategy)
    runs = [
        measure(make_process_case(1, cores=1, strategy=strategy), compute, network),
        measure(whole, compute, network),
    ]
    calibration = calibrate(runs)
    assert calibration.network_is_measured
    assert calibration.compute == pytest.approx(compute, rel=1e-3)
    assert calibration.network == pytest.approx(network, rel=1e-3)
    for run in runs:
        expected = answer(run.case, calibration).step_seconds.expected
        assert expected == pytest.approx(run.step_seconds, rel=1e-3)


@given(factors, factors, counts, counts)
def test_two_measurements_of_gpus_are_reproduced(
    compute: float, network: float, first: int, second: int
) -> None:
    assume(first != second)
    runs = [measure(make_case(count, "fsdp", gbit=10), compute, network) for count in (first, second)]
    calibration = calibrate(runs)
    for run in runs:  # cases whose shares of exchanges are alike do not tell both factors
        expected = answer(run.case, calibration).step_seconds.expected
        tolerance = 1e-3 if calibration.network_is_measured else 0.05
        assert expected == pytest.approx(run.step_seconds, rel=tolerance)


@given(st.lists(st.tuples(counts, st.floats(1e-3, 1e3), st.sampled_from(STRATEGIES)), min_size=1, max_size=5))
def test_factors_are_positive_and_finite(rows: list[tuple[int, float, Strategy]]) -> None:
    runs = [Measurement(make_case(count, strategy), seconds) for count, seconds, strategy in rows]
    calibration = calibrate(runs)
    assert 0 < calibration.compute < math.inf
    assert 0 < calibration.network < math.inf
    assert math.isfinite(calibration.residual)


@given(st.floats(0.05, 20.0), factors, factors)
def test_times_are_proportional_to_both_factors(scale: float, compute: float, network: float) -> None:
    case = make_case(4, "fsdp")
    once = measure(case, compute, network).step_seconds
    assert measure(case, scale * compute, scale * network).step_seconds == pytest.approx(scale * once)


def test_more_measurements_are_fitted_by_least_squares() -> None:
    runs = [measure(make_process_case(ranks), 1.5, 1.2) for ranks in (1, 2, 4, 8)]
    noisy = [
        replace(run, step_seconds=run.step_seconds * noise)
        for run, noise in zip(runs, (1.03, 0.97, 1.03, 0.97), strict=True)
    ]
    calibration = calibrate(noisy)
    assert calibration.compute == pytest.approx(1.5, rel=0.1)
    assert calibration.network == pytest.approx(1.2, rel=0.1)
    assert 0.01 < calibration.residual < 0.06


def test_the_interval_narrows_by_one_measurement_and_more_by_two() -> None:
    case = make_case(8, "fsdp", gbit=25)
    one = calibrate([measure(alone(case), 1.1, 1.3)])
    two = calibrate([measure(alone(case), 1.1, 1.3), measure(make_case(2, "fsdp", gbit=25), 1.1, 1.3)])
    widths = []
    for calibration in (NOT_CALIBRATED, one, two):
        interval = answer(case, calibration).step_seconds
        widths.append(interval.high / interval.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[2] < widths[1] < widths[0]
    assert answer(case, one).basis == "calibrated by 1 run on 1 GPU; exchanges not measured apart"
    assert answer(case, two).basis == "calibrated by 2 runs on 1 and 16 GPUs; extrapolated to 64"


def test_another_architecture_keeps_half_and_says_so() -> None:
    calibration = calibrate([measure(alone(make_case(1)), 1.44, 1.0)])
    hopper = alone(make_case(1, gpu="H100"))
    assert carry(calibration, hopper).calibration.compute == pytest.approx(1.2)
    assert "measured on A100-80GB" in answer(hopper, calibration).basis
    same = answer(alone(make_case(1)), calibration).step_seconds
    other = answer(hopper, calibration).step_seconds
    assert other.high / other.low > same.high / same.low


def test_another_network_keeps_no_factor_on_exchanges() -> None:
    case = make_case(2)
    calibration = calibrate([measure(alone(case), 1.1, 2.0), measure(make_case(2, gbit=5), 1.1, 2.0)])
    assert calibration.network == pytest.approx(2.0, rel=0.01)
    tcp = replace(case, cluster=replace(case.cluster, rdma=False))
    carried = carry(calibration, tcp)
    assert carried.calibration.network == 1.0
    assert "another kind of network" in carried.reasons


def test_another_kind_of_workload_keeps_nothing() -> None:
    calibration = calibrate([measure(alone(make_case(1)), 1.44, 1.0)])
    case = replace(alone(make_case(1)), workload=RESNET)
    calibrated, plain = answer(case, calibration), answer(case, NOT_CALIBRATED)
    assert calibrated.step_seconds == plain.step_seconds


def test_processes_have_a_speed_only_by_measurement() -> None:
    case = make_process_case(2)
    assert estimate(case.workload, case.training, case.cluster) is None
    gpu = calibrate([measure(alone(make_case(1)), 1.4, 1.0)])
    assert estimate(case.workload, case.training, case.cluster, gpu) is None
    convolutional = calibrate([Measurement(replace(make_process_case(1), workload=RESNET), 1.0)])
    assert estimate(case.workload, case.training, case.cluster, convolutional) is None
    process = calibrate([Measurement(make_process_case(1), 0.1)])
    assert answer(case, process).model_flops_utilisation is None
    whole = make_case(1)
    plain, carried = answer(whole, NOT_CALIBRATED), answer(whole, process)
    assert carried.step_seconds == plain.step_seconds


def test_processes_beyond_the_cores_compute_slower_in_proportion() -> None:
    calibration = calibrate([Measurement(make_process_case(1, cores=1), 0.1)])
    computing = {
        ranks: answer(make_process_case(ranks, mbit=1e9), calibration).step_seconds.expected
        for ranks in (2, 4, 8)
    }
    assert computing[2] == pytest.approx(0.1, rel=0.01)
    assert computing[4] == pytest.approx(0.2, rel=0.01)
    assert computing[8] == pytest.approx(0.4, rel=0.01)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="is no measurement"):
        calibrate([Measurement(make_case(1), seconds)])


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="no measurement"):
        calibrate([])


def test_an_unknown_link_is_refused() -> None:
    case = make_case(2)
    unknown = replace(case, cluster=replace(case.cluster, network_bytes_per_s=None))
    with pytest.raises(ValueError, match="unknown"):
        calibrate([Measurement(unknown, 1.0)])


def test_the_interval_widens_with_ranks_and_with_the_rate() -> None:
    runs = [measure(make_process_case(1, cores=1), 1.2, 1.1), measure(make_process_case(2), 1.2, 1.1)]
    calibration = calibrate(runs)
    cases = [make_process_case(2), make_process_case(2, mbit=50), make_process_case(4, mbit=50)]
    widths = []
    for case in cases:
        interval = answer(case, calibration).step_seconds
        widths.append(interval.high / interval.low)
    assert widths[0] < widths[1] < widths[2]
