"""`worldsize advise`: the table, the JSON, refusals, and what `--apply` writes into a spec."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

import worldsize
from worldsize import api, checking
from worldsize.api.advice import Request, is_as_advised, make_question, read_asked
from worldsize.base import resources
from worldsize.checking.fixing import Setting, set_values
from worldsize.cli.advice_view import _times
from worldsize.cli.main import main
from worldsize.documents import yaml
from worldsize.facts import vm_sizes
from worldsize.planning.advising import layouts
from worldsize.planning.advising.options import make_option
from worldsize.planning.advising.search import make_cluster
from worldsize.resolving.advice import list_settings, read_steps

FILE = """\
workload: {kind: transformer, parameters: 6.65e9, layers: 32, width: 4096, heads: 32, vocabulary: 50368,
           sequence_length: 2048}
training: {micro_batch: 8, precision: bf16, strategy: fsdp, activation_checkpointing: true}
cluster: {instance_type: Standard_ND96isr_H100_v5, instance_count: 4}
"""
SPEC = """\
name: language  # a comment that stays
compute:
  gpu:
    target: azureml:gpu-cluster
    instance_type: Standard_NC96ads_A100_v4  # four GPUs
    max_instances: 1
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}
steps:
  shard: {uses: shard_data, compute: cpu, with: {source: "builtin:python-source"}}
  train:
    uses: train_ddp
    compute: gpu
    with: {model: gpt, optimizer: adamw, epochs: 4, strategy: fsdp}  # one of several
    scale: {reference: {batch_size: 16, learning_rate: 0.001}}
"""
OWN = """\
name: own
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_ND96asr_v4, max_instances: 16}
steps:
  train:
    command: python train.py --lr ${{plan.learning_rate}} --batch ${{plan.batch_size_per_device}}
    code: .
    environment: azureml://registries/azureml/environments/acpt-pytorch-2.8-cuda12.6/versions/5
    distribution: {type: pytorch}
    instance_count: 2
    scale:
      reference: {batch_size: 16, learning_rate: 0.001}
      optimizer: adamw
      epochs: 2
      rows: 100000
      workload: {kind: transformer, parameters: 1.24e8, layers: 12, width: 768, heads: 12, vocabulary: 50257,
                 sequence_length: 1024}
      arithmetic: {precision: bf16, strategy: ddp}
"""


def advise(folder: Path, text: str, *options: str) -> Result:
    path = folder / "spec.yml"
    path.write_text(text, encoding="utf-8")
    (folder / "train.py").write_text("print()\n", encoding="utf-8")
    return CliRunner().invoke(main, ["advise", str(path), *options])


def test_what_is_the_same_is_not_said_as_a_factor() -> None:
    assert f"costs {_times(1.001)}as much" == "costs as much"
    assert f"costs {_times(2.5)}as much" == "costs 2.5 times as much"
    assert f"{_times(0.9999, 'the same ')}share" == "the same share"
    assert f"{_times(0.5, 'the same ')}share" == "0.5 times the share"


def test_the_front_is_a_table_that_says_why(tmp_path: Path) -> None:
    shown = advise(tmp_path, FILE, "--tokens", "1e9", "--deadline", "2d")
    assert shown.exit_code == 0, shown.output
    assert "chosen" in shown.stdout
    assert "present" in shown.stdout
    assert "times the peak arithmetic for the money" in shown.stdout
    assert "a global batch of 512 (× 2, not applied)" in shown.stdout
    assert "prices: eastus" in shown.stdout


@pytest.mark.parametrize("text", [FILE, SPEC], ids=["file", "spec"])
def test_json_is_what_the_schema_says(text: str, tmp_path: Path) -> None:
    shown = advise(tmp_path, text, "--samples", "1e6", "--region", "westeurope", "--json")
    document = json.loads(shown.stdout)
    schema = json.loads((resources.schemas() / "advice.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    front = document["steps"][0]["front"]
    assert {option["tier"] for option in front} == {"dedicated", "low_priority"}
    assert front[-1] == document["steps"][0]["cheapest"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sizes", "ND96isr_H100_v5"), "did you mean `Standard_ND96isr_H100_v5`?"),
        (("--sizes", "Standard_NC6s_v3"), "`Standard_NC6s_v3` is not a size to advise: it is retired"),
        (("--sizes", "Standard_D16s_v5"), "it has no GPU"),
        (("--sizes", "Standard_NC4as_T4_v3"), "no GPU of these sizes computes in bf16"),
        (("--sizes", "Standard_NV36ads_A10_v5", "--max-instances", "1"), "fits no GPU: it needs at least"),
        (("--deadline", "1s"), "no cluster trains `spec` within the limits"),
        (("--budget", "0.01"), "the cheapest is 1 × Standard_"),
        (("--region", "westeurop"), "did you mean `westeurope`?"),
        (("--budget", "100", "--apply"), "is not a spec"),
        (("--step", "train"), "no step `train` trains"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    shown = advise(tmp_path, FILE, "--tokens", "1e9", *options)
    assert shown.exit_code == 1, shown.output
    assert message in shown.stderr
    assert "= help: " in shown.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--deadline", "tomorrow"), "`tomorrow` is not a time"),
        (("--budget", "-1"), "`-1` is not a number above 0"),
        (("--tokens", "nan"), "`nan` is not a number above 0"),
        (("--tiers", "spot"), "`spot` is not a tier"),
        (("--sizes", " , "), "a list of names is empty"),
        (("--apply",), "`--apply` needs `--deadline` or `--budget`"),
        (("--samples", "1", "--tokens", "1"), "exclude each other"),
    ],
)
def test_wrong_options_are_errors_of_usage(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    shown = advise(tmp_path, FILE, *options)
    assert shown.exit_code == 2
    assert message in shown.stderr


def test_the_length_of_the_training_must_be_known(tmp_path: Path) -> None:
    shown = advise(tmp_path, FILE)
    assert shown.exit_code == 1
    assert "nothing says how long the training of `spec` is" in shown.stderr


def test_an_unknown_workload_says_what_to_add(tmp_path: Path) -> None:
    text = "\n".join(line for line in OWN.splitlines() if "workload" not in line and "sequence_" not in line)
    shown = advise(tmp_path, text)
    assert shown.exit_code == 1
    assert "describe it by `scale: {workload: …}`" in shown.stderr


def test_apply_edits_the_spec_and_keeps_its_comments(tmp_path: Path) -> None:
    path = tmp_path / "spec.yml"
    shown = advise(tmp_path, SPEC, "--deadline", "90s", "--apply")
    assert shown.exit_code == 0, shown.output
    text = path.read_text(encoding="utf-8")
    assert text != SPEC
    for comment in ("# a comment that stays", "# four GPUs", "# one of several"):
        assert comment in text
    assert f"+    instance_type: {_chosen(tmp_path, SPEC)['instance_type']}" in shown.stdout


def _chosen(folder: Path, text: str) -> dict[str, str | int]:
    shown = advise(folder, text, "--deadline", "90s", "--json")
    chosen: dict[str, str | int] = json.loads(shown.stdout)["steps"][0]["chosen"]
    return chosen


def test_what_is_applied_is_planned_with_the_same_global_batch(tmp_path: Path) -> None:
    chosen = _chosen(tmp_path, SPEC)
    before = worldsize.plan(tmp_path / "spec.yml").steps["train"].training
    assert advise(tmp_path, SPEC, "--deadline", "90s", "--apply").exit_code == 0
    step = worldsize.plan(tmp_path / "spec.yml").steps["train"]
    assert before is not None
    assert step.training is not None
    assert step.training.global_batch_size == before.global_batch_size
    assert step.training.learning_rate == before.learning_rate
    assert step.training.batch_size_per_device == chosen["micro_batch"]
    assert step.topology.instance_type == chosen["instance_type"]
    again = CliRunner().invoke(main, ["advise", str(tmp_path / "spec.yml"), "--deadline", "90s", "--apply"])
    assert again.exit_code == 0
    assert "the spec says this already" in again.stdout


@pytest.mark.parametrize("text", [SPEC.replace("gpu", "node"), SPEC.replace("\n", "\r\n")])
def test_other_bytes_stay(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yml"
    path.write_bytes(text.encode())
    shown = CliRunner().invoke(main, ["advise", str(path), "--deadline", "90s", "--apply"])
    assert shown.exit_code == 0, shown.output
    after = path.read_bytes()
    assert after.count(b"\r\n") in (0, after.count(b"\n"))
    assert after.startswith(text.splitlines()[0].encode())


@pytest.mark.parametrize("uses", ["train_ddp", "train_deepspeed", "train_horovod"])
def test_every_layout_can_be_written(uses: str, tmp_path: Path) -> None:
    """Of every division over a cluster; the plan of the edited spec trains the same way."""
    path = tmp_path / "spec.yml"
    text = SPEC.replace("train_ddp", uses).replace("batch_size: 16", "batch_size: 64")
    text = text.replace("max_instances: 1", "max_instances: 2")
    path.write_text(text if uses == "train_ddp" else text.replace(", strategy: fsdp", ""), encoding="utf-8")
    asked = read_asked(path, Request(max_instances=2, region="westeurope"), None)
    subject, spec = asked.subjects[0], checking.check_spec(path).planned.spec
    question = make_question(asked, subject, Request(max_instances=2))
    size = vm_sizes.lookup("Standard_NC64as_T4_v3")
    assert size is not None
    cluster = make_cluster(size, 2)
    assert cluster is not None
    for division in layouts.list_divisions(question, "full" if uses == "train_ddp" else "none", cluster):
        replicas = cluster.world_size // (division.tensor_parallel * division.pipeline_parallel)
        training = replace(division, micro_batch=2, accumulation=question.global_batch // replicas // 2)
        option = make_option(question, cluster, training, "low_priority")
        assert option is not None
        wanted = [Setting(*each) for each in list_settings(spec, subject, option)]
        planned = checking.check_spec(path, yaml.load(path, set_values(yaml.load(path), wanted)))
        ((edited,), _) = read_steps(planned.planned)
        assert is_as_advised(edited.case, subject, option)
        assert option.memory_bytes == api.estimate_memory(planned)["train"].breakdown.total
        other = replace(option, training=replace(training, recomputation="selective"))
        assert not is_as_advised(edited.case, subject, other)


@pytest.mark.parametrize("most", [1, 2])
def test_a_maximum_of_the_spec_is_never_raised(most: int, tmp_path: Path) -> None:
    text = OWN.replace("max_instances: 16", f"max_instances: {most}").replace("instance_count: 2\n", "\n")
    shown = advise(tmp_path, text, "--budget", "5000", "--keep-layout", "--json")
    assert shown.exit_code == 0, shown.output
    (step,) = json.loads(shown.stdout)["steps"]
    assert {option["instance_count"] for option in step["front"]} <= set(range(1, most + 1))
    applied = advise(tmp_path, text, "--budget", "5000", "--keep-layout", "--apply")
    assert applied.exit_code == 0, applied.output
    assert f"max_instances: {most}}}" in (tmp_path / "spec.yml").read_text(encoding="utf-8")


def test_a_profile_of_several_steps_is_not_changed(tmp_path: Path) -> None:
    text = SPEC.replace("uses: shard_data, compute: cpu", "uses: shard_data, compute: gpu")
    shown = advise(tmp_path, text, "--deadline", "90s", "--apply")
    assert shown.exit_code == 1
    assert "compute profile `gpu` is also that of step `shard`" in shown.stderr
    assert "write by hand: 1 × Standard_" in shown.stderr
    assert (tmp_path / "spec.yml").read_text(encoding="utf-8") == text


def test_a_script_of_the_users_own_keeps_its_strategy_or_is_not_changed(tmp_path: Path) -> None:
    sizes = ("--sizes", "Standard_ND96asr_v4,Standard_ND96isr_H100_v5", "--budget", "1000", "--apply")
    shown = advise(tmp_path, OWN, *sizes, "--keep-layout", "--max-instances", "3")
    assert shown.exit_code == 0, shown.output
    written = (tmp_path / "spec.yml").read_text(encoding="utf-8")
    assert "global_batch_size: 256" in written
    assert "strategy: ddp" in written
    free = advise(tmp_path, OWN.replace("strategy: ddp", "strategy: fsdp"), *sizes, "--max-instances", "1")
    assert free.exit_code == 1
    assert "the command of step `train` decides its strategy" in free.stderr
