"""Predicted speeds beside measured ones: from the plan through a trainer's inputs to `show` and `runs`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from worldsize import api
from worldsize.api.layout import add_predictions
from worldsize.azureml.model import Literal
from worldsize.checking import check_spec
from worldsize.cli import speed_view
from worldsize.cli.main import main
from worldsize.planning.estimates import prediction
from worldsize.planning.estimates.calibration import Speed
from worldsize.planning.estimates.measured_case import MeasuredRun, UnusableRunError, compare_speed
from worldsize.planning.estimates.model import Interval
from worldsize.planning.estimates.prediction import read_prediction, write_inputs

SPEC = """\
name: language
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4, max_instances: 2}
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}
steps:
  shard: {uses: shard_data, compute: cpu, with: {source: "builtin:python-source"}}
  train:
    uses: train_ddp
    compute: gpu
    with: {model: gpt, optimizer: adamw, epochs: 4}
    scale: {reference: {batch_size: 16, learning_rate: 0.001}}
"""
SECOND = """\
  tune:
    uses: train_ddp
    compute: gpu
    with: {model: gpt, optimizer: adamw, epochs: 1}
    scale: {reference: {batch_size: 16, learning_rate: 0.001}}
"""
WORKLOAD = "workload: {kind: convolutional, parameters: 25.6e6, forward_flops: 8.2e9}"
PREDICTED = {
    "predicted_samples_per_second": "12900.0",
    "predicted_samples_per_second_low": "11000.0",
    "predicted_samples_per_second_high": "15100.0",
    "predicted_cluster": "2 x Standard_NC96ads_A100_v4, 8 GPUs",
}
INPUTS = {
    "world_size": "8",
    "batch_size_per_device": "4",
    "precision": "fp32",
    "strategy": "ddp",
    "optimizer": "adamw",
    "planned_gpus_per_instance": "4",
    "planned_instance_type": "Standard_NC96ads_A100_v4",
    **PREDICTED,
}
PRODUCT = "NVIDIA A100 80GB PCIe"


def write_spec(folder: Path, text: str = SPEC) -> Path:
    path = folder / "spec.yml"
    path.write_text(text, encoding="utf-8")
    return path


def predicted_inputs(spec: Path) -> dict[str, object]:
    """The inputs of step `train` that carry its predicted speed."""
    planned = check_spec(spec)
    step = add_predictions(planned.planned, planned.planned.complete_plan)["train"]
    found = {name: step.inputs[name].value for name in prediction.INPUTS if name in step.inputs}
    return {name: value.value for name, value in found.items() if isinstance(value, Literal)}


def make_run(folder: Path, monkeypatch: pytest.MonkeyPatch, speed: float, product: str = PRODUCT) -> None:
    """A run of this machine whose step `train` reported ``speed``, and a driver that names its GPU."""
    monkeypatch.chdir(folder)
    driver = folder / "nvidia-smi"
    driver.write_text(f"#!/bin/sh\necho '{product}'\n", encoding="utf-8")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    root = folder / ".worldsize" / "runs" / "20260102-030405-000"
    (root / "steps" / "train").mkdir(parents=True)
    (root / "run.json").write_text(json.dumps({"steps": {"train": {"parameters": INPUTS}}}))
    reports = (json.dumps({"step": step, "samples_per_second": speed}) for step in range(9))
    (root / "steps" / "train" / "progress.jsonl").write_text("\n".join(reports))


def invoke(*words: str, status: int = 0) -> Result:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == status, done.output
    return done


def test_a_prediction_travels_as_inputs(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    planned = check_spec(spec)
    forecast = api.forecast_steps(planned)["train"].time
    inputs = predicted_inputs(spec)
    assert set(inputs) == set(prediction.INPUTS)
    read = read_prediction({name: str(value) for name, value in inputs.items()})
    assert read is not None
    assert forecast.estimate is not None
    assert read.samples_per_second.expected == pytest.approx(
        forecast.estimate.samples_per_second.expected, rel=1e-3
    )
    assert (read.instance_count, read.instance_type, read.world_size) == (1, "Standard_NC96ads_A100_v4", 4)


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({"instance_type: Standard_NC96ads_A100_v4": "instance_type: Standard_D16s_v5"}, False),
        ({"model: gpt": 'model: "mine.py:make"'}, False),
        ({"train_ddp": "train_tensorflow"}, False),
        ({"train_ddp": "train_tensorflow", "scale: {": f"scale: {{{WORKLOAD}, "}, True),
        ({"model: gpt": "model: gpt, predicted_samples_per_second: 5"}, True),
    ],
)
def test_only_a_known_speed_is_predicted(tmp_path: Path, changes: dict[str, str], known: bool) -> None:
    (tmp_path / "mine.py").write_text("def make(task):\n    return None\n")
    text = SPEC
    for before, after in changes.items():
        text = text.replace(before, after)
    inputs = predicted_inputs(write_spec(tmp_path, text))
    assert bool(inputs) == known
    if "predicted_samples_per_second" in text:
        assert inputs["predicted_samples_per_second"] == 5  # the user's


def test_a_cluster_without_a_vm_size_has_no_inputs(tmp_path: Path) -> None:
    case = api.forecast_steps(check_spec(write_spec(tmp_path)))["train"].time.case
    assert case is not None
    nameless = replace(case, cluster=replace(case.cluster, instance_type=None))
    assert write_inputs(nameless, Interval(1.0, 2.0, 3.0)) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"predicted_cluster": "many"},
        {"predicted_cluster": "99999999999 x A, 1 GPU"},
        {"predicted_samples_per_second": "nan"},
        {"predicted_samples_per_second": "0"},
        {"predicted_samples_per_second_low": "13000"},
        {"predicted_samples_per_second_high": "no"},
    ],
)
def test_a_prediction_that_is_not_whole_is_none(changed: dict[str, str]) -> None:
    assert read_prediction(PREDICTED) is not None
    assert read_prediction({**PREDICTED, **changed}) is None


def test_a_speed_is_compared_on_what_it_was_predicted_for() -> None:
    there = {**INPUTS, "device": PRODUCT}
    compared = compare_speed(Speed(12300.0, 0.0, there))
    assert compared.ratio == pytest.approx(0.953, abs=1e-3)
    assert compared.is_inside
    for changed in (
        {"device": "cpu"},
        {"device": "NVIDIA H100 80GB HBM3"},
        {"world_size": "4"},
        {"device": ""},
    ):
        elsewhere = compare_speed(Speed(12300.0, 0.0, {**there, **changed}))
        assert (elsewhere.ratio, elsewhere.is_inside, elsewhere.ran_there) == (None, None, False)
    assert compare_speed(Speed(1.0, 0.0, {})).prediction is None


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (0.6, "measured 40 % below the prediction"),
        (1.25, "measured 25 % above the prediction"),
        (4.0, "measured 4 times the prediction"),
        (0.001, "the prediction is 1,000 times what was measured"),
    ],
)
def test_a_difference_in_words(ratio: float, said: str) -> None:
    assert speed_view.describe_difference(ratio) == said


def test_show_says_both_speeds_and_their_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, monkeypatch, 12300.0)
    shown = invoke("show", "last").output
    assert "    samples/s: 12,300 (predicted 12,900, 11,000 to 15,100), ratio 0.953\n" in shown
    assert "measured" not in shown
    assert "predicted_cluster" not in shown
    step = json.loads(invoke("show", "last", "--json").stdout)["steps"]["train"]
    assert step["speed"] == {
        "samples_per_second": 12300.0,
        "predicted": {"low": 11000.0, "expected": 12900.0, "high": 15100.0},
        "predicted_for": {"instance_type": "Standard_NC96ads_A100_v4", "instance_count": 2, "gpus": 8},
        "ratio": 0.9535,
        "inside": True,
    }


def test_show_says_that_a_speed_is_outside_the_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path, monkeypatch, 7740.0)
    shown = invoke("show", "last").output
    assert "    samples/s: 7,740 (predicted 12,900, 11,000 to 15,100), ratio 0.6\n" in shown
    assert "    measured 40 % below the prediction" in shown


def test_on_other_gpus_the_prediction_stands_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, monkeypatch, 7740.0, "NVIDIA H100 80GB HBM3")
    shown = invoke("show", "last").output
    expected = "predicted for 2 × Standard_NC96ads_A100_v4, 8 GPUs: 12,900 (11,000 to 15,100) samples/s"
    assert f"    samples/s: 7,740\n    {expected}" in shown
    assert "ratio" not in shown
    listed = invoke("runs").output.splitlines()
    assert listed[0].split()[-2:] == ["samples/s", "predicted"]
    assert listed[1].endswith("7,740      12,900 on 2 × Standard_NC96ads_A100_v4")


def test_runs_lists_both_speeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, monkeypatch, 12300.0)
    assert invoke("runs").output.splitlines()[1].split()[-2:] == ["12,300", "12,900"]
    (run,) = json.loads(invoke("runs", "--json").stdout)
    assert run["speeds"]["train"]["ratio"] == 0.9535


def test_runs_that_trained_nothing_have_no_columns_of_speeds(tmp_path: Path) -> None:
    (tmp_path / "runs" / "20260102-030405-000").mkdir(parents=True)
    assert "samples/s" not in invoke("runs", "--runs-dir", str(tmp_path)).output


def test_a_plan_is_calibrated_by_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, monkeypatch, 9000.0)
    spec = str(write_spec(tmp_path))
    before, after = (
        json.loads(invoke("plan", spec, "--json", *more).stdout)["steps"]["train"]["forecast"]
        for more in ((), ("--from", "last"))
    )
    assert after["basis"].startswith("calibrated by 1 run on 8 GPUs")
    widths = [
        found["samples_per_second"]["high"] / found["samples_per_second"]["low"] for found in (before, after)
    ]
    assert widths[1] < widths[0]
    assert after["samples_per_second"]["expected"] > before["samples_per_second"]["expected"]
    assert "rests on" in (shown := invoke("plan", spec, "--from", "last").stdout)
    assert "calibrated by 1 run on 8 GPUs" in shown


def test_advice_is_calibrated_by_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, monkeypatch, 9000.0)
    spec = str(write_spec(tmp_path))
    words = ("advise", spec, "--max-instances", "2")
    assert "calibrated" not in invoke(*words).stdout
    assert "its time rests on: calibrated by 1 run on 8 GPUs" in invoke(*words, "--from", "last").stdout


@pytest.mark.parametrize("command", ["plan", "advise"])
def test_a_run_of_another_step_calibrates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    make_run(tmp_path, monkeypatch, 9000.0)
    two = SPEC + SECOND
    invoke(command, str(write_spec(tmp_path, two)), "--from", "last")
    renamed = two.replace("  train:", "  first:")
    done = invoke(command, str(write_spec(tmp_path, renamed)), "--from", "last", status=1)
    assert done.stderr.startswith(
        "error: `last` trained step `train`: name a run of `first` or `tune`, which train here"
    )


def test_only_the_step_that_a_run_trained_is_calibrated(tmp_path: Path) -> None:
    planned = check_spec(write_spec(tmp_path, SPEC + SECOND))
    forecasts = api.forecast_steps(planned, runs=[MeasuredRun("run", Speed(9000.0, 0.0, INPUTS), "tune")])
    bases = {name: each.time.estimate.basis for name, each in forecasts.items() if each.time.estimate}
    assert bases["tune"].startswith("calibrated by")
    assert bases["train"].startswith("fitted on")


def test_a_plan_on_low_priority_says_that_its_price_is_unknown(tmp_path: Path) -> None:
    low = SPEC.replace("max_instances: 2}", "max_instances: 2, tier: low_priority}", 1)
    shown = invoke("plan", str(write_spec(tmp_path, low))).stdout
    assert re.search("cost, low priority +unknown in [a-z]+: `worldsize catalogue --prices`", shown)
    assert "unknown here" not in invoke("plan", str(write_spec(tmp_path))).stdout


def test_a_plan_says_why_a_run_tells_nothing(tmp_path: Path) -> None:
    planned = check_spec(write_spec(tmp_path))
    run = MeasuredRun("job", Speed(9000.0, 0.0, {**INPUTS, "device": "cpu"}), "train")
    with pytest.raises(UnusableRunError, match="`job` tells nothing of this workload: it ran without GPUs"):
        api.forecast_steps(planned, runs=[run])


def test_a_compiled_pipeline_carries_the_calibrated_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path, monkeypatch, 9000.0)
    spec = str(write_spec(tmp_path))
    forecast = json.loads(invoke("plan", spec, "--json", "--from", "last").stdout)["steps"]["train"][
        "forecast"
    ]
    invoke("compile", spec, "-o", "build", "--from", "last")
    (line,) = (
        line
        for line in (tmp_path / "build" / "pipeline.yml").read_text().splitlines()
        if "predicted_samples_per_second:" in line
    )
    assert float(line.split()[1]) == pytest.approx(forecast["samples_per_second"]["expected"], rel=1e-3)
    assert "# calibrated by 1 run on 8 GPUs" in line
