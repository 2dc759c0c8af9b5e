"""Faults in the shipped pipelines of people's frameworks, which `check` finds at the step's own words."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import worldsize

PIPELINES = Path(__file__).parents[2] / "pipelines"
TRAINER, LIGHTNING, ACCELERATE = "own_transformers", "own_lightning", "own_accelerate"
LOCAL, WORLD, NODES = "${{plan.local_world_size}}", "${{plan.world_size}}", "${{plan.instance_count}}"
PYTORCH = "distribution: {type: pytorch}"

# What is replaced in which pipeline, by what; the rule, and words of its message.
FAULTS = [
    # arguments of the scripts
    (TRAINER, "--learning_rate", "--learn_rate", "WS940", "learn_rate"),
    (TRAINER, "--save_strategy no", "--save_strategy never", "WS942", "never"),
    (TRAINER, "--num_train_epochs ${{plan.epochs}}", "--num_train_epochs many", "WS942", "many"),
    (TRAINER, "${{plan.batch_size_per_device}}", "0.5", "WS942", "whole number"),
    (TRAINER, "--save_strategy no", "--fp16 true --bf16 true", "WS927", "bf16"),
    (TRAINER, "      --output ${{outputs.model}}\n", "", "WS941", "--output"),
    (LIGHTNING, "--max_epochs", "--epochs", "WS940", "--epochs"),
    (LIGHTNING, "${{plan.steps_per_epoch}}", "${{plan.learning_rate}}", "WS942", "0.16"),
    (TRAINER, "plan.learning_rate", "plan.learning_rte", "WS625", "learning_rte"),
    # processes of an instance
    (TRAINER, LOCAL, "8", "WS203", "8 processes per instance but `Standard_NC96ads_A100_v4` has 4 GPUs"),
    (TRAINER, LOCAL, "2", "WS204", "4 of 8 GPUs idle"),
    (TRAINER, LOCAL, WORLD, "WS203", "starts 8 processes per instance"),
    (TRAINER, LOCAL, "${{plan.process_count_per_instance}}", "WS245", "1, but 4 processes start on each"),
    (TRAINER, PYTORCH, f"{PYTORCH[:-1]}, process_count_per_instance: 4}}", "WS217", "16 per instance"),
    (ACCELERATE, PYTORCH, f"{PYTORCH[:-1]}, process_count_per_instance: 2}}", "WS217", "8 per instance"),
    (ACCELERATE, WORLD, LOCAL, "WS245", "4, but 8 processes start on all"),
    (ACCELERATE, WORLD, "7", "WS243", "7, which 2 machines cannot share"),
    (ACCELERATE, WORLD, "16", "WS203", "starts 8 processes per instance"),
    (LIGHTNING, LOCAL, "2", "WS926", "`devices` is 2, but 4 processes"),
    # instances, and where they meet
    (TRAINER, NODES, "4", "WS243", "for 4 nodes, but the job has 2"),
    (TRAINER, "$NODE_RANK", "0", "WS243", "is 0 on each of the 2 instances"),
    (TRAINER, "      --node_rank $NODE_RANK\n", "", "WS243", "without `--node_rank`"),
    (TRAINER, "$MASTER_ADDR", "localhost", "WS243", "never meet"),
    (
        TRAINER,
        f"    {PYTORCH}  # process_count_per_instance: 1, as torchrun starts the others\n",
        "",
        "WS218",
        "2",
    ),
    (LIGHTNING, NODES, "1", "WS926", "`num_nodes` is 1, but the job has 2 instances"),
    (LIGHTNING, f"      --num_nodes {NODES}\n", "", "WS926", "`num_nodes` is 1, but the job has 2"),
    (ACCELERATE, f"--num_machines {NODES}", "--num_machines 3", "WS243", "for 3 nodes, but the job has 2"),
    (ACCELERATE, "$NODE_RANK", "$LOCAL_RANK", "WS243", "counts processes on one"),
    (ACCELERATE, "      --main_process_ip $MASTER_ADDR\n", "", "WS928", "no `main_process_ip`"),
    (ACCELERATE, "--config_file accelerate.yml", "--config_file other.yml", "WS928", "no `other.yml`"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped pipelines, to be changed."""
    copied = tmp_path_factory.mktemp("pipelines")
    for name in (TRAINER, LIGHTNING, ACCELERATE):
        shutil.copytree(PIPELINES / name, copied / name)
    return copied


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault[0]}-{fault[2][:30]}" for fault in FAULTS])
def test_a_fault_is_found_once_and_in_the_spec(folder: Path, fault: tuple[str, str, str, str, str]) -> None:
    name, old, new, code, words = fault
    text = (PIPELINES / f"{name}.yml").read_text(encoding="utf-8")
    assert old in text
    path = folder / "changed.yml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    found = worldsize.check(path, ignore=["WS225"]).diagnostics
    assert [each.code for each in found] == [code], [each.message for each in found]
    assert words in found[0].message
    assert found[0].help


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        ("num_processes: 16\n", "      --num_processes ${{plan.world_size}}\n"),
        ("num_machines: 1\n", "      --num_machines ${{plan.instance_count}}\n"),
    ],
)
def test_accelerates_file_is_compared_with_the_plan(tmp_path: Path, settings: str, change: str) -> None:
    shutil.copytree(PIPELINES / ACCELERATE, tmp_path / ACCELERATE)
    text = (PIPELINES / f"{ACCELERATE}.yml").read_text(encoding="utf-8")
    (tmp_path / "spec.yml").write_text(text.replace(change, ""), encoding="utf-8")
    with (tmp_path / ACCELERATE / "accelerate.yml").open("a", encoding="utf-8") as file:
        file.write(settings)
    found = worldsize.check(tmp_path / "spec.yml", ignore=["WS225"]).diagnostics
    assert ("WS928", "accelerate.yml") in [(each.code, Path(each.span.path).name) for each in found]


def test_a_launcher_alone_starts_the_processes_of_one_instance(tmp_path: Path) -> None:
    """Without a `distribution`, on one instance: the launcher decides."""
    (tmp_path / "spec.yml").write_text(
        """
name: alone
compute: {gpu: {target: azureml:gpu, instance_type: Standard_NC96ads_A100_v4}}
steps:
  train:
    command: torchrun --standalone --nproc_per_node ${{plan.local_world_size}} -m train ${{plan.world_size}}
    environment: azureml:any:1
    scale: {reference: {batch_size: 32, learning_rate: 0.05}, optimizer: sgd, epochs: 2}
""",
        encoding="utf-8",
    )
    plan = worldsize.plan(tmp_path / "spec.yml").steps["train"]
    assert (plan.topology.world_size, plan.topology.local_world_size) == (4, 4)
    assert (plan.topology.process_count_per_instance, plan.topology.command_launcher) == (1, "torchrun")
    assert plan.training is not None
    assert plan.training.global_batch_size == 128
    assert plan.inputs["warmup_ratio"] == 0.1
