"""Steps that were planned for GPUs are told what this machine has, and the user is too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from worldsize import api
from worldsize.azureml import job
from worldsize.azureml.model import Component
from worldsize.facts import vm_sizes
from worldsize.planning import plan_file
from worldsize.planning.model import Plan
from worldsize.running.launch.machine import Machine, fit_devices, read_vm_sizes
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.task import Task, Text
from worldsize.running.prepare.fit import Room, fit_tasks, reconstruct_plan
from worldsize.running.prepare.graph.flatten import flatten

PIPELINES = Path(__file__).parents[2] / "pipelines"
SIZE = "Standard_NC96ads_A100_v4"
CPUS, TWO, FOUR = Machine(2), Machine(16, ("0", "1")), Machine(16, ("0", "1", "2", "3"))
SAID = f"train: planned for 4 GPUs an instance (`{SIZE}`), running on CPUs here"


def task(**inputs: Any) -> Task:
    given = {name: Text(value) for name, value in inputs.items()}
    return Task(
        "train",
        Component(None, "command", None, None, {}, {}),
        Path(),
        launcher="pytorch",
        process_count_per_instance=4,
        inputs=given,
    )


@pytest.mark.parametrize(("machine", "here"), [(CPUS, 0), (TWO, 2), (FOUR, 4)])
@pytest.mark.parametrize("with_plan", [True, False])
def test_a_compiled_step_is_told_of_this_machine(
    tmp_path: Path, machine: Machine, here: int, *, with_plan: bool
) -> None:
    pipeline = api.compile(PIPELINES / "digits_ddp.yml", tmp_path / "build").pipeline
    if not with_plan:
        (pipeline.parent / "plan.json").unlink()
    read, _ = job.read_job(pipeline)
    assert read is not None
    tasks = flatten(read, AssetMap())[0].tasks
    assert tasks["train"].inputs["planned_gpus_per_instance"] == Text(4)
    assert tasks["train"].inputs["planned_instance_type"] == Text(SIZE)
    plan, templates = plan_file.load(pipeline.parent) or reconstruct_plan(tasks)
    fitted = fit_tasks(tasks, pipeline, plan, templates, Room(machine, len(machine.gpus) or None))
    found, said = fit_devices(fitted.tasks, read_vm_sizes(tasks, plan), machine)
    assert found["train"].inputs["planned_gpus_per_instance"] == Text(here)
    assert said == ([] if here else [SAID])


@pytest.mark.parametrize(
    ("precision", "more"),
    [
        ("fp32", ""),
        ("bf16", ", in bf16 as planned"),
        ("fp16", ", in fp16 if they have it; `--set train.precision=fp32` runs it in fp32"),
    ],
)
def test_the_precision_of_a_plan_for_gpus_is_said(precision: str, more: str) -> None:
    _, said = fit_devices({"train": task(precision=precision)}, {"train": SIZE}, CPUS)
    assert said == [SAID + more]


@pytest.mark.parametrize(
    ("inputs", "sizes"),
    [
        ({}, {}),
        ({}, {"train": "Standard_D16s_v5"}),
        ({}, {"train": "Standard_Unheard_Of"}),
        ({"planned_gpus_per_instance": 0}, {}),
        ({"planned_gpus_per_instance": "many"}, {}),
    ],
)
def test_what_was_not_planned_for_gpus_stays(inputs: dict[str, Any], sizes: dict[str, str]) -> None:
    given = {"train": task(**inputs)}
    assert fit_devices(given, sizes, CPUS) == (given, [])


def test_a_shared_card_is_one_gpu() -> None:
    found, said = fit_devices({"train": task(planned_gpus_per_instance=0.5)}, {}, TWO)
    assert (found["train"].inputs["planned_gpus_per_instance"], said) == (Text(0.5), [])


def test_a_launcher_of_more_processes_than_gpus_is_to_start_fewer(tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    path.write_text("type: command\ncommand: torchrun --nproc-per-node=4 t.py\nenvironment: azureml:e:1\n")
    found, _ = job.read_job(path)
    assert found is not None
    tasks = flatten(found, AssetMap())[0].tasks
    (problem,) = fit_tasks(tasks, path, Plan("", {}), {}, Room(Machine(8, ("0", "1")))).problems
    assert problem.help == "let its command start 2 at most"  # which no option changes


def test_the_gpus_of_a_size_that_the_project_describes_are_known() -> None:
    learned = vm_sizes.collect_learned([vm_sizes.make_learned("Standard_ND256xyz_v9", 8)])
    sizes = {"train": "standard_nd256xyz_v9"}
    assert fit_devices({"train": task()}, sizes, CPUS)[1] == []
    (notice,) = fit_devices({"train": task()}, sizes, CPUS, learned)[1]
    assert notice.startswith("train: planned for 8 GPUs an instance")
