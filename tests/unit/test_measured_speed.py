"""What the reports of a run say of its speed, and the question that such a run answers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from worldsize.cli.main import main
from worldsize.facts import gpus
from worldsize.planning.estimates import processes
from worldsize.planning.estimates.calibrate import calibrate
from worldsize.planning.estimates.calibration import Speed
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.measured_case import (
    MeasuredRun,
    UnusableRunError,
    calibrate_from_runs,
    choose_runs,
    measure_from_run,
    read_card_file,
)
from worldsize.running.record.details import read_speeds, summarise_speed
from worldsize.running.record.history import load_run
from worldsize.spec.workload import Transformer

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
    (speed,) = read_speeds(load_run(run)).values()
    assert speed.samples_per_second == 100.0
    assert 0.01 < speed.deviation < 0.05
    assert speed.parameters == INPUTS


@pytest.mark.parametrize(
    "record",
    [None, [], {"steps": 3}, {"steps": {"train": 3}}, {"steps": {"a\0/..": {}}}, {"steps": {"x": {}}}],
)
def test_a_damaged_record_has_no_speed_or_no_inputs(tmp_path: Path, record: object) -> None:
    reports = "\n".join(json.dumps({"step": step, "samples_per_second": 5}) for step in range(10))
    for speed in read_speeds(load_run(write_run(tmp_path, reports, record))).values():
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


def test_a_run_of_another_machine_has_the_gpus_of_that() -> None:
    cluster = measure_from_run(GPT, Speed(1.0, 0.0, INPUTS, gpu="H100")).case.cluster
    assert (cluster.gpu.name, cluster.gpus_per_instance, cluster.instance_count) == ("H100", 8, 1)


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H200", "H200"),
        ("Tesla V100-SXM2-16GB", "V100-16GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA A10G", None),
        ("", None),
    ],
)
def test_a_driver_names_a_gpu(product: str, name: str | None) -> None:
    gpu = gpus.lookup_product(product)
    assert (gpu.name if gpu is not None else None) == name


ESTIMATE = """
workload: {kind: transformer, parameters: 1.3e9, layers: 24, width: 2048, heads: 16, vocabulary: 50368,
           sequence_length: 2048}
training: {micro_batch: 4, accumulation: 2, precision: bf16, strategy: fsdp, activation_checkpointing: true}
cluster: {gpu: H100, gpus_per_instance: 8, instance_count: 1, network_gbit: 400, rdma: true}
"""


def make_home(folder: Path, inputs: dict[str, str], speed: float) -> None:
    reports = "\n".join(json.dumps({"step": step, "samples_per_second": speed}) for step in range(9))
    root = folder / ".worldsize" / "runs" / "20260102-030405-000"
    write_run(root, reports, {"steps": {"train": {"parameters": inputs}}})
    (folder / "estimate.yml").write_text(ESTIMATE, encoding="utf-8")


def test_the_command_calibrates_by_a_run_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3'\n", encoding="utf-8")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    make_home(tmp_path, INPUTS, 50.0)
    done = CliRunner().invoke(main, ["estimate", "estimate.yml", "--from", "last", "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["samples_per_second"]["expected"] == pytest.approx(50.0, rel=1e-3)
    assert answer["basis"].startswith("calibrated by 1 run on 8 GPUs")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("last", "`last` ran on this machine, which has no GPU, and tells nothing of GPUs"),
        ("last:other", "step `other` of `last` reported no speed"),
        ("2027", "there is no run `2027`"),
    ],
)
def test_the_command_says_why_a_run_tells_nothing(
    run: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    make_home(tmp_path, INPUTS, 50.0)
    done = CliRunner().invoke(main, ["estimate", "estimate.yml", "--from", run])
    assert done.exit_code == 1
    assert done.output.startswith(f"error: {message}")


def test_a_run_without_gpus_is_refused() -> None:
    run = MeasuredRun("last", Speed(1.0, 0.0, {**INPUTS, "planned_gpus_per_instance": "0"}))
    with pytest.raises(UnusableRunError, match="`last` tells nothing of this workload: it ran without GPUs"):
        calibrate_from_runs(GPT, [run])


@pytest.mark.smoke
@pytest.mark.run
@pytest.mark.timeout(120)
@pytest.mark.filterwarnings("ignore")  # of the libraries that MLflow imports
def test_the_command_calibrates_by_a_run_of_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/runs.db")
    (tmp_path / "estimate.yml").write_text(ESTIMATE, encoding="utf-8")
    with mlflow.start_run() as run:
        mlflow.log_params(INPUTS)
        for step in range(8):
            mlflow.log_metric("samples_per_second", 30.0, step=step)
    command = ["estimate", str(tmp_path / "estimate.yml"), "--json", "--from"]
    done = CliRunner().invoke(main, [*command, f"mlflow:{run.info.run_id}"])
    assert done.exit_code == 0, done.output
    assert "measured on A100-80GB" in json.loads(done.stdout)["basis"]
    unknown = CliRunner().invoke(main, [*command, "mlflow:none"])
    assert unknown.exit_code == 1
    assert unknown.output.startswith("error: `mlflow:none` cannot be read")


def card_file(folder: Path, *, device: str = "NVIDIA H100 80GB HBM3", gpus: str = "1", **more: object) -> str:
    """What `tests/gpu/prove.py` writes of two trainings."""
    inputs = INPUTS | {
        "world_size": "1",
        "strategy": "ddp",
        "device": device,
        "planned_gpus_per_instance": gpus,
    }
    networks = {"small": (124e6, 12, 768, 12, 300.0), "large": (760e6, 24, 1536, 16, 60.0)}
    measured = [
        {
            "workload": {
                "parameters": weights,
                "layers": layers,
                "width": width,
                "heads": heads,
                "vocabulary": 50304,
                "sequence_length": 1024,
            },
            "samples_per_second": speed,
            "parameters": inputs,
            **more,
        }
        for weights, layers, width, heads, speed in networks.values()
    ]
    path = folder / "gpu.json"
    path.write_text(json.dumps({"format": 1, "checks": {"speed": {"measured": measured}}}), encoding="utf-8")
    return str(path)


def test_the_command_calibrates_by_a_measured_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network = "{kind: transformer, parameters: 760e6, layers: 24, width: 1536, heads: 16, vocabulary: 50304,"
    training = "{micro_batch: 4, accumulation: 2, precision: bf16, activation_checkpointing: true}"
    text = f"workload: {network} sequence_length: 1024}}\ntraining: {training}\n"
    text += "cluster: {gpu: H100, gpus_per_instance: 1}\n"
    (tmp_path / "estimate.yml").write_text(text, encoding="utf-8")
    card_file(tmp_path)
    done = CliRunner().invoke(main, ["estimate", "estimate.yml", "--from", "gpu.json", "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["samples_per_second"]["expected"] == pytest.approx(60.0, rel=0.25)  # two sizes, one factor
    assert "calibrated by 2 runs on 1 GPU" in answer["basis"]


def test_a_measured_card_tells_of_every_step(tmp_path: Path) -> None:
    runs = read_card_file("gpu.json", json.loads(Path(card_file(tmp_path)).read_text(encoding="utf-8")))
    assert choose_runs(runs, "tune", ["train", "tune"]) == runs
    assert {each.case.workload for each in calibrate_from_runs(GPT, runs).measured} == {
        run.workload for run in runs
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "`gpu.json` cannot be read as JSON"),
        (
            "{}",
            "`gpu.json` is not a file that tests/gpu/prove.py writes: Object missing required field `checks`",
        ),
        ('{"checks": {"speed": {}}}', "`gpu.json` has no speed: its check `speed` was not reached"),
        ({"device": "cpu", "gpus": "0"}, "`gpu.json` tells nothing of this workload: it ran without GPUs"),
        ({"device": "Voodoo 2"}, "`gpu.json` was measured on `Voodoo 2`, of which no speed is known"),
        ({"samples_per_second": 0.0}, "`gpu.json` tells nothing of this workload: it reported no speed"),
        (
            {"samples_per_second": "fast"},
            "`gpu.json` is not a file that tests/gpu/prove.py writes: Expected `float`",
        ),
    ],
)
def test_the_command_says_why_a_card_file_tells_nothing(
    text: str | dict[str, object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "estimate.yml").write_text(ESTIMATE, encoding="utf-8")
    if isinstance(text, str):
        (tmp_path / "gpu.json").write_text(text, encoding="utf-8")
    else:
        card_file(tmp_path, **text)  # type: ignore[arg-type]
    done = CliRunner().invoke(main, ["estimate", "estimate.yml", "--from", "gpu.json"])
    assert done.exit_code == 1
    assert done.output.startswith(f"error: {message}")
