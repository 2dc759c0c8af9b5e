"""`worldsize estimate`, and the time and cost that `worldsize plan` shows: tables, JSON, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from worldsize.base import resources
from worldsize.cli.main import main
from worldsize.planning.estimates.estimate import estimate
from worldsize.resolving.workloads import resolve_case
from worldsize.spec.load import read_estimate_file

SCHEMA = json.loads((resources.schemas() / "estimate.schema.json").read_text(encoding="utf-8"))
SPEC_SCHEMA = json.loads((resources.schemas() / "spec.schema.json").read_text(encoding="utf-8"))
TRANSFORMER = (
    "{kind: transformer, parameters: 6.65e9, layers: 32, width: 4096, heads: 32, vocabulary: 50368,"
    " sequence_length: 2048}"
)
TRAINING = "{micro_batch: 8, precision: bf16, strategy: fsdp, zero_stage: 3, activation_checkpointing: true}"
CLUSTER = "{instance_type: Standard_ND96isr_H100_v5, instance_count: 4}"
GPUS = "{gpu: H100, gpus_per_instance: 8, network_gbit: 3200, rdma: true}"
SPEC = """\
name: own
compute: {gpu: {target: azureml:gpu-cluster, instance_type: INSTANCE_TYPE}}
steps:
  train:
    compute: gpu
    instance_count: 2
    command: python train.py --batch-size ${{plan.batch_size_per_device}}
    code: ./src
    environment: azureml:own:1
    distribution: {type: pytorch}
    scale:
      reference: {batch_size: 256, learning_rate: 0.1}
      optimizer: sgd
      epochs: 90
      rows: 1281167
      SCALE
"""
RESNET = "workload: {kind: convolutional, parameters: 25.6e6, forward_flops: 8.2e9, activation_bytes: 89.7e6}"


def ask(
    folder: Path, *options: str, workload: str = TRANSFORMER, training: str = TRAINING, cluster: str = CLUSTER
) -> Result:
    path = folder / "estimate.yml"
    path.write_text(f"workload: {workload}\ntraining: {training}\ncluster: {cluster}\n", encoding="utf-8")
    return CliRunner().invoke(main, ["estimate", str(path), *options])


def plan(folder: Path, *options: str, scale: str = RESNET, size: str = "Standard_ND40rs_v2") -> Result:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "train.py").write_text("print()\n", encoding="utf-8")
    path = folder / "spec.yml"
    path.write_text(SPEC.replace("SCALE", scale).replace("INSTANCE_TYPE", size), encoding="utf-8")
    return CliRunner().invoke(main, ["plan", str(path), *options])


@pytest.mark.parametrize("command", ["estimate", "advise"])
def test_a_pipeline_is_named_as_what_it_is(command: str, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text("type: pipeline\njobs: {a: {type: command, command: a}}\n")
    refused = CliRunner().invoke(main, [command, str(tmp_path / "pipeline.yml")])
    assert (refused.exit_code, refused.stderr.count("error[")) == (1, 1)
    assert "this is an Azure ML pipeline job; an estimate file has `workload`" in refused.stderr


def test_the_json_has_what_was_asked(tmp_path: Path) -> None:
    found = json.loads(ask(tmp_path, "--json").stdout)
    assert found["samples_per_second"]["low"] < found["samples_per_second"]["expected"]
    assert found["tokens_per_second_per_gpu"]["expected"] == pytest.approx(
        found["samples_per_second"]["expected"] * 2048 / 32, rel=1e-3
    )
    assert 0.3 < found["model_flops_utilisation"] < 0.6
    assert 0.9 < found["scaling_efficiency"] <= 1
    assert found["bound"] == "compute"
    assert found["cost_per_hour"] == {
        "currency": "USD",
        "dedicated": pytest.approx(4 * 98.32),
        "low_priority": None,
        "region": "eastus",
        "as_of": "2026-06-18",
    }
    assert found["unknown"] is None


def test_the_command_and_the_function_agree(tmp_path: Path) -> None:
    shown = json.loads(ask(tmp_path, "--json").stdout)
    keys, problems, _ = read_estimate_file(tmp_path / "estimate.yml")
    assert keys is not None
    case = resolve_case(keys, problems)
    assert case is not None
    found = estimate(case.workload, case.training, case.cluster)
    assert found is not None
    assert shown["step_seconds"]["expected"] == pytest.approx(found.step_seconds.expected, rel=1e-4)


def test_what_is_not_known_is_null_and_said(tmp_path: Path) -> None:
    cluster = "{gpu: H100, gpus_per_instance: 8, instance_count: 2}"
    found = json.loads(ask(tmp_path, "--json", cluster=cluster).stdout)
    assert found["samples_per_second"] is None
    assert found["cost_per_hour"] is None
    assert "add `network_gbit` and `rdma`" in found["unknown"]


@pytest.mark.parametrize(
    ("part", "text", "code", "message"),
    [
        ("workload", TRANSFORMER.replace("layers: 32", "layers: 0"), "WS106", "`layers` is 0"),
        ("workload", TRANSFORMER.replace(", layers: 32", ""), "WS102", "no `layers`"),
        (
            "workload",
            TRANSFORMER.replace("}", ", forward_flops: 1}"),
            "WS101",
            "`forward_flops` is not a key",
        ),
        ("workload", "{kind: mixture, parameters: 1e9}", "WS104", "`mixture`"),
        ("training", TRAINING.replace("micro_batch: 8", "micro_batch: 800"), "WS320", "micro-batches of 800"),
        ("training", TRAINING.replace("fsdp", "ddp"), "WS104", "`zero_stage` is 3, but `ddp`"),
        ("training", TRAINING.replace("bf16", "int4"), "WS104", "`int4`"),
        (
            "training",
            TRAINING.replace("}", ", parallelism: {tensor: 3}}"),
            "WS230",
            "does not divide 32 GPUs",
        ),
        ("cluster", CLUSTER.replace("4}", "1000000000}"), "WS106", "at most 100000"),
        ("cluster", "{gpu: H1000, gpus_per_instance: 8}", "WS104", "`H1000` is not a GPU"),
        ("cluster", "{gpu: H100}", "WS102", "no `gpus_per_instance`"),
        ("cluster", "{instance_type: Standard_D16s_v5}", "WS104", "has no GPU"),
        ("cluster", "{instance_type: Standard_ND96isr_H100_v6}", "WS104", "is not a VM size"),
        ("cluster", CLUSTER.replace("}", ", gpu: P100}"), "WS104", "has NVIDIA H100"),
        ("cluster", CLUSTER.replace("}", ", gpus_per_instance: 9}"), "WS106", "has 8 GPUs"),
    ],
)
def test_nonsense_is_refused_at_its_place(
    part: str, text: str, code: str, message: str, tmp_path: Path
) -> None:
    result = ask(tmp_path, **{part: text})  # type: ignore[arg-type]
    assert result.exit_code == 1
    assert f"error[{code}]" in result.stderr
    assert message in result.stderr
    line = {"workload": 1, "training": 2, "cluster": 3}[part]
    assert f"estimate.yml:{line}:" in result.stderr


def test_a_precision_that_the_gpu_lacks_is_refused(tmp_path: Path) -> None:
    result = ask(
        tmp_path, training=TRAINING.replace("bf16", "fp8"), cluster="{instance_type: Standard_ND96asr_v4}"
    )
    assert "A100-40GB does not compute in" in result.stderr


def test_a_spec_is_led_to_the_plan(tmp_path: Path) -> None:
    plan(tmp_path)
    result = CliRunner().invoke(main, ["estimate", str(tmp_path / "spec.yml")])
    assert result.exit_code == 1
    assert "`worldsize plan` shows the time and cost" in result.stderr
    assert result.stderr.count("error[") == 1


@pytest.mark.parametrize(("cluster", "name"), [(CLUSTER, "Standard_ND96isr_H100_v5"), (GPUS, "H100")])
def test_a_picture_is_drawn_alike_each_time(tmp_path: Path, cluster: str, name: str) -> None:
    pytest.importorskip("matplotlib")
    for file in ("a.svg", "b.svg", "c.html"):
        assert ask(tmp_path, "--plot", str(tmp_path / file), cluster=cluster).exit_code == 0
    first, second = ((tmp_path / file).read_text(encoding="utf-8") for file in ("a.svg", "b.svg"))
    assert first == second
    assert "samples per second" in first
    assert name in first
    assert "<svg" in (tmp_path / "c.html").read_text(encoding="utf-8")


def test_the_schema_describes_its_examples_and_ours(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert ask(tmp_path).exit_code == 0
    arithmetic = SPEC_SCHEMA["$defs"]["arithmetic"]["properties"]
    training = SCHEMA["$defs"]["training"]["properties"]
    assert {name: training[name] for name in arithmetic} == arithmetic


def test_a_plan_shows_time_and_cost_of_a_described_workload(tmp_path: Path) -> None:
    result = plan(tmp_path)
    assert "train  time and cost on 2 × Standard_ND40rs_v2, 16 GPUs" in result.stdout
    for row in ("an epoch", "all epochs", "samples per second", "scaling efficiency", "cost, dedicated"):
        assert f"\n  {row} " in result.stdout
    assert "in eastus, as of" in result.stdout


def test_the_json_of_a_plan_is_what_its_schema_says(tmp_path: Path) -> None:
    document = json.loads(plan(tmp_path, "--json").stdout)
    schema = json.loads((resources.schemas() / "plan.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    forecast, training = (document["steps"]["train"][name] for name in ("forecast", "training"))
    step = forecast["step_seconds"]["expected"]
    assert forecast["epoch_seconds"]["expected"] == pytest.approx(
        step * training["steps_per_epoch"], rel=1e-3
    )
    hours = forecast["total_seconds"]["expected"] / 3600
    assert forecast["cost"]["dedicated"]["amount"] == pytest.approx(
        hours * forecast["cost_per_hour"]["dedicated"], rel=1e-3
    )


def test_more_precision_bits_take_longer(tmp_path: Path) -> None:
    half = f"{RESNET}\n      arithmetic: {{precision: fp16}}"
    steps = [
        json.loads(plan(tmp_path, "--json", scale=scale).stdout)["steps"]["train"]["forecast"]["step_seconds"]
        for scale in (RESNET, half)
    ]
    assert steps[1]["expected"] < steps[0]["expected"]


@pytest.mark.parametrize(
    ("scale", "size", "reason"),
    [
        (
            "warmup_epochs: 5",
            "Standard_ND40rs_v2",
            "no speed of this model on this data is known: describe it by `scale: {workload: …}`",
        ),
        (RESNET, "Standard_D16s_v5", "speeds are estimated for GPUs only"),
    ],
)
def test_what_a_plan_cannot_know_is_said(scale: str, size: str, reason: str, tmp_path: Path) -> None:
    document = json.loads(plan(tmp_path, "--json", scale=scale, size=size).stdout)
    assert document["steps"]["train"]["forecast"]["unknown"] == reason
    assert f"train  time unknown: {reason}" in plan(tmp_path, scale=scale, size=size).stdout


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ("workload: {kind: convolutional, parameters: 1e6}", "has no `forward_flops`"),
        ("workload: {kind: transformer, parameters: 1e6, layers: many}", "`layers` must be a whole number"),
        (f"{RESNET}\n      arithmetic: {{zero_stage: 2}}", "`zero_stage` is 2, but `ddp`"),
    ],
)
def test_a_wrong_workload_of_a_spec_is_refused(scale: str, message: str, tmp_path: Path) -> None:
    result = plan(tmp_path, scale=scale)
    assert result.exit_code == 1
    assert message in result.stderr


@pytest.mark.parametrize("label", ["rent", "kind"])
def test_a_table_of_numbers_is_estimated_like_one_of_classes(label: str, tmp_path: Path) -> None:
    rows = "".join(f"{n % 7},{n * 1.25},{('flat', 'house')[n % 2]}\n" for n in range(400))
    (tmp_path / "rents.csv").write_text(f"rooms,rent,kind\n{rows}", encoding="utf-8")
    spec = tmp_path / "spec.yml"
    spec.write_text(
        f"""\
name: rents
compute: {{gpu: {{target: azureml:gpu-cluster, instance_type: Standard_NC64as_T4_v3}}}}
steps:
  shard: {{uses: shard_data, compute: gpu, with: {{data: ./rents.csv, label: {label}}}}}
  train:
    uses: train_ddp
    compute: gpu
    with: {{model: mlp, epochs: 2, optimizer: adamw}}
    scale: {{reference: {{batch_size: 8, learning_rate: 0.001}}}}
""",
        encoding="utf-8",
    )
    shown = CliRunner().invoke(main, ["plan", str(spec)]).stdout
    assert "train  time and cost on 1 × Standard_NC64as_T4_v3, 4 GPUs" in shown
    assert "bound by                 latency (" in shown  # what takes most of the step
