"""`worldsize plan --memory`: the table, the JSON, and what is said where too little is known."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from worldsize.base import resources
from worldsize.cli.main import main
from worldsize.planning.memory import built_in
from worldsize.planning.memory.estimate import SHARES

SPEC = """\
name: language
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}
steps:
  shard: {uses: shard_data, compute: cpu, with: {source: "builtin:python-source"}}
  train:
    uses: USES
    compute: gpu
    with: {model: MODEL, optimizer: adamw, epochs: 1}
    scale: {reference: {batch_size: 16, learning_rate: 0.001}}
"""


def plan(folder: Path, *options: str, uses: str = "train_ddp", model: str = "gpt") -> Result:
    path = folder / "spec.yml"
    path.write_text(SPEC.replace("USES", uses).replace("MODEL", model), encoding="utf-8")
    return CliRunner().invoke(main, ["plan", str(path), *options])


def test_the_table_adds_up_to_the_memory_of_a_gpu(tmp_path: Path) -> None:
    lines = plan(tmp_path, "--memory").stdout.splitlines()
    start = lines.index("train  memory of a process, `gpt` of 858880 weights, bf16, ddp")
    names = [line.split()[0] for line in lines[start + 1 :]]
    assert names == [
        "parameters", "gradients", "optimizer", "activations", "buffers", "checkpoint", "reserve", "total"
    ]  # fmt: skip
    assert lines[-1].endswith("of 80.0 GiB of a GPU")


@pytest.mark.parametrize("uses", ["train_ddp", "train_horovod", "train_deepspeed"])
def test_json_is_what_the_schema_says(uses: str, tmp_path: Path) -> None:
    document = json.loads(plan(tmp_path, "--memory", "--json", uses=uses).stdout)
    schema = json.loads((resources.schemas() / "plan.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    memory = document["steps"]["train"]["memory"]
    assert memory["parameters"] == 4 * 858880
    assert memory["total"] == sum(memory[share] for share in SHARES)
    assert (memory["available"], memory["device"]) == (80 * 2**30, "GPU")
    assert "memory" not in document["steps"]["shard"]


def test_without_the_option_nothing_is_said_of_memory(tmp_path: Path) -> None:
    assert "train  memory" not in plan(tmp_path).stdout
    assert "memory" not in json.loads(plan(tmp_path, "--json").stdout)["steps"]["train"]


def test_a_model_of_the_users_own_is_unknown_until_its_code_may_run(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def make(): raise ValueError('run')\n", encoding="utf-8")
    shown = plan(tmp_path, "--memory", model="mine.py:make")
    assert shown.exit_code == 0
    assert "train  memory unknown" in shown.stdout
    assert "--import-model" in shown.stdout


@pytest.mark.parametrize(
    ("uses", "model", "why"),
    [
        (
            "train_tensorflow",
            "gpt",
            "calculated for the built-in PyTorch trainers only",
        ),
        ("train_ddp", "gpt, gpt_layers: 20000, gpt_width: 8", "calculated for at most 10000 layers"),
        ("train_deepspeed", "gpt, ds_config: zero.json", "`ds_config` decides what is cut and offloaded"),
    ],
)
def test_it_says_why_the_memory_is_unknown(uses: str, model: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "zero.json").write_text("{}", encoding="utf-8")
    shown = plan(tmp_path, "--memory", uses=uses, model=model)
    assert shown.stdout.splitlines()[-1] == f"train  memory unknown: {why}"


@pytest.mark.timeout(20)
def test_absurd_sizes_are_judged_at_once(tmp_path: Path) -> None:
    deep = plan(tmp_path, "--memory", model="gpt, gpt_layers: 1000000000")
    assert deep.exit_code == 1
    assert "error[WS320] `gpt` of 1000000000 layers needs" in deep.output
    most = 2**31 - 1
    text = (
        SPEC.replace("USES", "train_ddp")
        .replace("MODEL", "gpt")
        .replace("batch_size: 16", f"batch_size: {most}")
    )
    path = tmp_path / "spec.yml"
    path.write_text(
        text.replace("scale: {", f"scale: {{gradient_accumulation_steps: {most}, "), encoding="utf-8"
    )
    assert (
        "error[WS320] `gpt` with micro-batches of 2147483647"
        in CliRunner().invoke(main, ["plan", str(path)]).output
    )


TABLES = {
    "rows.csv": "a,b,c,label\n" + "1,2,3,x\n4,5,6,y\n" * 40,
    "rows.jsonl": '{"v": [1, 2, 3], "label": "x"}\n{"v": [4, 5, 6], "label": "y"}\n' * 40,
}


@pytest.mark.parametrize("name", TABLES)
def test_a_built_in_model_on_an_own_table_is_known(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(TABLES[name], encoding="utf-8")
    path = tmp_path / "spec.yml"
    own = SPEC.replace('{source: "builtin:python-source"}', f"{{data: ./{name}}}")
    path.write_text(own.replace("USES", "train_ddp").replace("MODEL", "mlp"), encoding="utf-8")
    shown = CliRunner().invoke(main, ["plan", str(path), "--memory"]).stdout
    weights = built_in.mlp((3,), 2).trained
    assert f"train  memory of a process, `mlp` of {weights} weights" in shown


def test_a_table_that_cannot_be_read_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    path = tmp_path / "spec.yml"
    own = SPEC.replace('{source: "builtin:python-source"}', "{data: ./rows.csv}")
    path.write_text(own.replace("USES", "train_ddp").replace("MODEL", "mlp"), encoding="utf-8")
    shown = CliRunner().invoke(main, ["plan", str(path), "--memory"]).stdout
    assert "train  memory unknown: the samples are known only at run time" in shown
