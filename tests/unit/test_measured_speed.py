"""What the reports of a run say of its speed, and the question that such a run answers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from worldsize.planning.estimates import processes
from worldsize.planning.estimates.calibrate import calibrate
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.model import Transformer
from worldsize.resolving.measured_case import Speed, UnusableRunError, measure_from_run
from worldsize.running.record.measured_speed import read_speeds, summarise_speed

GPT = Transformer(1.3e9, 24, 2048, 16, 50368, 2048)
INPUTS = {
    "world_size": "8",
    "batch_size_per_device": "4",
    "gradient_accumulation_steps": "2",
    "precision": "bf16",
    "strategy": "fsdp",
    "fsdp_reshard": "auto",
    "activation_checkpointing": "full",
    "optimizer": "adamw",
    "planned_gpus_per_instance": "4",
    "planned_instance_type": "Standard_NC96ads_A100_v4",
}


def write_run(root: Path, reports: str, record: object) -> Path:
    (root / "steps" / "train").mkdir(parents=True)
    (root / "steps" / "train" / "progress.jsonl").write_text(reports, encoding="utf-8")
    (root / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return root


def test_the_median_of_the_reports_after_the_first_steps(tmp_path: Path) -> None:
    speeds = [9.0, 1.0, 2.0, 100.0, 104.0, 96.0, 100.0]
    lines = [json.dumps({"step": step, "samples_per_second": speed}) for step, speed in enumerate(speeds, 1)]
    run = write_run(
        tmp_path, "\n".join([*lines, "{", '{"step": 9}']), {"steps": {"train": {"parameters": INPUTS}}}
    )
    (speed,) = read_speeds(run).values()
    assert speed.samples_per_second == 100.0
    assert 0.01 < speed.deviation < 0.05
    assert speed.parameters == INPUTS


@pytest.mark.parametrize(
    "record",
    [None, [], {"steps": 3}, {"steps": {"train": 3}}, {"steps": {"a\0/..": {}}}, {"steps": {"x": {}}}],
)
def test_a_damaged_record_has_no_speed_or_no_inputs(tmp_path: Path, record: object) -> None:
    reports = "\n".join(json.dumps({"step": step, "samples_per_second": 5}) for step in range(10))
    for speed in read_speeds(write_run(tmp_path, reports, record)).values():
        assert speed.parameters == {}


def test_few_or_senseless_reports_are_no_speed() -> None:
    assert summarise_speed([(4, 1.0), (5, 1.0)], {}) is None
    assert summarise_speed([(step, math.nan) for step in range(9)], {}) is None
    assert summarise_speed([(step, 0.0) for step in range(9)], {}) is None


def test_a_run_on_a_vm_size_is_a_measurement_that_an_estimate_reproduces() -> None:
    measurement = measure_from_run(GPT, Speed(10.0, 0.01, INPUTS))
    assert measurement.case.cluster.instance_count == 2
    assert measurement.case.training.recomputation == "full"
    assert measurement.step_seconds == pytest.approx(6.4)
    found = estimate(GPT, measurement.case.training, measurement.case.cluster, calibrate([measurement]))
    assert found is not None
    assert found.samples_per_second.expected == pytest.approx(10.0, rel=1e-4)
    assert found.basis == "calibrated by 1 run on 8 GPUs; exchanges not measured apart"


def test_a_run_without_gpus_is_one_of_processes() -> None:
    inputs = {**INPUTS, "planned_gpus_per_instance": "0", "precision": "fp32"}
    measurement = measure_from_run(GPT, Speed(1.0, 0.0, inputs), cores=2, link_bytes_per_s=1e6)
    assert processes.is_process(measurement.case.cluster)
    with pytest.raises(UnusableRunError, match="without GPUs"):
        measure_from_run(GPT, Speed(1.0, 0.0, inputs))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"world_size": None}, "its `world_size` was not recorded"),
        ({"world_size": "0"}, "its `world_size` is `0`"),
        ({"world_size": "many"}, "its `world_size` is `many`"),
        ({"batch_size_per_device": "1.5"}, "its `batch_size_per_device` is `1.5`"),
        ({"planned_instance_type": None}, "its VM size was not recorded"),
        ({"planned_instance_type": "Standard_X"}, "its VM size `Standard_X` is not known"),
        ({"world_size": "7"}, "its 7 ranks do not divide into instances of 4"),
        ({"tensor_parallel_size": "3"}, "cannot have trained so"),
    ],
)
def test_a_run_that_tells_nothing_says_why(changed: dict[str, str | None], message: str) -> None:
    inputs = {name: value for name, value in (INPUTS | changed).items() if value is not None}
    with pytest.raises(UnusableRunError, match=message):
        measure_from_run(GPT, Speed(1.0, 0.0, inputs))


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan, math.inf])
def test_a_speed_that_is_none(speed: float) -> None:
    with pytest.raises(UnusableRunError, match="no speed"):
        measure_from_run(GPT, Speed(speed, 0.0, INPUTS))
