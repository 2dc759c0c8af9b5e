"""Meshes of data, tensor and pipeline parallelism: degrees, batches, and fewer processes than planned."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.azureml import job
from worldsize.planning import plan_file
from worldsize.planning.degrees import Degrees
from worldsize.planning.derive import derive
from worldsize.planning.localise import localise
from worldsize.planning.model import Interface, StepPlan
from worldsize.planning.quantities import explain_missing
from worldsize.running.launch.machine import Machine
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.task import Text
from worldsize.running.prepare.fit import Room, fit_tasks
from worldsize.running.prepare.graph.flatten import flatten

Planner = Any  # the fixture's class lives in conftest.py

INPUTS = {
    "model": "gpt", "strategy": "ddp", "gpt_layers": 12, "gpt_heads": 12, "gpt_width": 768,
    "tensor_parallel_size": 1, "pipeline_parallel_size": 1,
}  # fmt: skip
OFFERED = Interface(INPUTS, "pytorch")
SPEC = """\
name: test
compute: {gpu: {target: azureml:gpu, instance_type: %s}}
steps:
  train:
    uses: train_ddp
    instance_count: %d
    %s
"""


def write(planner: Planner, *lines: str, instances: int = 2) -> str:
    return SPEC % (planner.gpu, instances, "\n    ".join(lines) or "timeout: 1")


def using(planner: Planner, *lines: str, instances: int = 2, interface: Interface = OFFERED) -> Any:
    """The plan and the problems of a step with a component that offers every strategy."""
    return derive(planner.load(write(planner, *lines, instances=instances)), {"train": interface})[:2]


def mesh(step: StepPlan) -> tuple[int, int, int]:
    found = step.topology
    return found.data_parallel_size, found.tensor_parallel_size, found.pipeline_parallel_size


@pytest.mark.parametrize(
    ("parallelism", "degrees"),
    [
        ("{tensor: 2}", (4, 2, 1)),
        ("{pipeline: 2}", (4, 1, 2)),
        ("{tensor: 2, pipeline: 2}", (2, 2, 2)),
        ("{data: 1, tensor: 4, pipeline: 2}", (1, 4, 2)),
        ("{data: 8}", (8, 1, 1)),
    ],
)
def test_what_is_left_out_is_derived(
    planner: Planner, parallelism: str, degrees: tuple[int, int, int]
) -> None:
    plan, problems = planner.planned(
        planner.write(None, more=f"instance_count: 2\n    parallelism: {parallelism}")
    )
    assert problems == []
    step = plan.steps["train"]
    assert mesh(step) == degrees
    rows = {row.quantity: row for row in step.derivations}
    assert rows["mesh"].value == 8
    assert rows["mesh"].formula == Degrees(*degrees).shown()
    assert step.inputs["data_parallel_size"] == degrees[0]
    assert step.inputs["tensor_parallel_size"] == degrees[1]


def test_without_a_mesh_the_table_does_not_speak_of_one(planner: Planner) -> None:
    plan, _ = planner.planned(planner.write())
    assert mesh(plan.steps["train"]) == (4, 1, 1)
    assert not [row for row in plan.steps["train"].derivations if "parallel" in row.quantity]


@pytest.mark.parametrize(
    ("lines", "instances", "degrees", "strategy"),
    [
        (["with: {strategy: tensor_parallel}"], 2, (2, 4, 1), None),
        (["with: {strategy: tensor_parallel, gpt_heads: 6}"], 2, (4, 2, 1), None),
        (["with: {strategy: tensor_parallel}", "parallelism: {data: 4}"], 2, (4, 2, 1), None),
        (["with: {strategy: pipeline_parallel}"], 3, (4, 1, 3), None),
        (["with: {strategy: pipeline_parallel}"], 1, (1, 1, 4), None),
        (["with: {strategy: pipeline_parallel, gpt_layers: 6}"], 1, (2, 1, 2), None),
        (["with: {strategy: pipeline_parallel}", "parallelism: {tensor: 2}"], 2, (2, 2, 2), None),
        (["with: {strategy: fsdp}", "parallelism: {tensor: 2}"], 2, (4, 2, 1), None),
        (["parallelism: {tensor: 2}"], 2, (4, 2, 1), "tensor_parallel"),
        (["parallelism: {tensor: 2, pipeline: 2}"], 2, (2, 2, 2), "pipeline_parallel"),
        (["with: {strategy: ddp}"], 2, (8, 1, 1), None),
    ],
)
def test_strategy_and_degrees_give_one_another(
    planner: Planner, lines: list[str], instances: int, degrees: tuple[int, int, int], strategy: str | None
) -> None:
    plan, problems = using(planner, *lines, instances=instances)
    assert problems == []
    assert mesh(plan.steps["train"]) == degrees
    assert plan.steps["train"].topology.strategy == strategy
    assert plan.steps["train"].inputs.get("strategy") == strategy


def test_one_process_may_rehearse_any_strategy(planner: Planner) -> None:
    lines = ("process_count_per_instance: 1", "with: {strategy: tensor_parallel}")
    plan, problems = using(planner, *lines, instances=1)
    assert problems == []
    assert mesh(plan.steps["train"]) == (1, 1, 1)


def test_a_component_whose_default_is_fsdp_keeps_it(planner: Planner) -> None:
    sharding = Interface({**INPUTS, "strategy": "fsdp"}, "pytorch")
    plan, problems = using(planner, "parallelism: {tensor: 2}", interface=sharding)
    assert problems == []
    assert plan.steps["train"].topology.strategy is None


@pytest.mark.parametrize(
    ("lines", "slug", "numbers"),
    [
        (["parallelism: {data: 3, tensor: 2}"], "parallelism-product", ("6", "8")),
        (["parallelism: {tensor: 3}"], "degree-does-not-divide", ("3", "8")),
        (["parallelism: {pipeline: 16}"], "degree-does-not-divide", ("16", "8")),
        (["parallelism: {tensor: 4}", "with: {gpt_heads: 6}"], "tensor-degree-does-not-divide-model", "46"),
        (["parallelism: {pipeline: 8}"], "pipeline-degree-does-not-divide-layers", ("8", "12")),
        (["parallelism: {tensor: 2}", "with: {model: mlp}"], "model-not-splittable", "2"),
        (["parallelism: {tensor: 2}", "with: {strategy: ddp}"], "strategy-contradicts-degrees", "2"),
        (["parallelism: {pipeline: 2}", "with: {strategy: fsdp}"], "strategy-contradicts-degrees", "2"),
        (
            ["parallelism: {tensor: 1}", "with: {strategy: tensor_parallel}"],
            "strategy-contradicts-degrees",
            "1",
        ),
        (["with: {strategy: tensor_parallel, gpt_heads: 3}"], "strategy-contradicts-degrees", "18"),
    ],
)
def test_one_problem_a_cause_with_both_numbers(
    planner: Planner, lines: list[str], slug: str, numbers: tuple[str, ...]
) -> None:
    problem = planner.only(using(planner, *lines)[1])
    assert problem.slug == slug
    assert all(number in problem.message for number in numbers)
    assert problem.help


def test_a_tensor_degree_beyond_an_instance_is_slow(planner: Planner, tmp_path: Path) -> None:
    given = "with: {model: gpt, gpt_heads: 8, gpt_width: 768, gpt_layers: 12}"
    text = write(planner, "timeout: 3600", "parallelism: {tensor: 8}", given)
    slow = [each for each in planner.check(tmp_path, text) if each.slug == "tensor-parallel-across-instances"]
    assert [planner.marked(text, each) for each in slow] == ["8"]
    assert "instances of 4 processes" in slow[0].message


def test_a_model_of_ones_own_is_taken_at_its_word(planner: Planner) -> None:
    plan, problems = using(planner, "parallelism: {tensor: 2}", "with: {model: net.py:make}")
    assert problems == []
    assert any("net.py:make" in advice for advice in plan.steps["train"].advice)
    bound = using(planner, "parallelism: {tensor: 2}", "with: {model: '${{parent.inputs.model}}'}")
    assert bound[1] == []


@pytest.mark.parametrize(
    ("lines", "slug"),
    [
        (["parallelism: {tensor: 2}", "with: {precision: fp16}"], "strategy-option-refused"),
        (["parallelism: {pipeline: 2}", "with: {sync_batch_norm: true}"], "strategy-option-refused"),
        (["with: {strategy: fsdp, precision: fp16, sync_batch_norm: true}"], None),
    ],
)
def test_options_that_a_strategy_does_not_take(planner: Planner, lines: list[str], slug: str | None) -> None:
    assert [problem.slug for problem in using(planner, *lines)[1]] == ([slug] if slug else [])


def test_who_cannot_split_a_model_says_so(planner: Planner) -> None:
    plain = Interface({"strategy": "ddp"}, "pytorch")
    problem = planner.only(using(planner, "parallelism: {tensor: 2}", interface=plain)[1])
    assert problem.slug == "model-parallelism-unsupported"
    fewer = Interface(INPUTS, "pytorch", choices={"strategy": ("ddp", "tensor_parallel")})
    problem = planner.only(using(planner, "parallelism: {pipeline: 2}", interface=fewer)[1])
    assert problem.slug == "model-parallelism-unsupported"
    assert "`ddp`, `tensor_parallel`" in problem.message
    text = planner.write(None, distribution="{type: tensorflow}", more="parallelism: {tensor: 2}")
    assert planner.only(planner.planned(text)[1]).slug == "model-parallelism-unsupported"


@pytest.mark.parametrize(("accumulation", "slugs", "advised"), [(1, 1, 0), (2, 0, 1), (4, 0, 1), (5, 0, 0)])
def test_a_pipeline_wants_micro_batches(
    planner: Planner, accumulation: int, slugs: int, advised: int
) -> None:
    scale = planner.scaled("optimizer: sgd", f"gradient_accumulation_steps: {accumulation}")
    plan, problems = planner.planned(
        planner.write(scale, more="instance_count: 2\n    parallelism: {pipeline: 2}")
    )
    assert [problem.slug for problem in problems] == ["pipeline-bubble"] * slugs
    assert len([advice for advice in plan.steps["train"].advice if "idles" in advice]) == advised
    row = next(row for row in plan.steps["train"].derivations if row.quantity == "pipeline_bubble")
    assert row.value == pytest.approx(1 / (accumulation + 1), abs=1e-4)


def test_only_replicas_count_towards_a_pinned_global_batch(planner: Planner) -> None:
    more = "instance_count: 2\n    parallelism: {tensor: 4}"
    scale = planner.scaled("optimizer: sgd", "global_batch_size: 6")
    found = planner.training(planner.planned(planner.write(scale, more=more))[0])
    assert (found.batch_size_per_device, found.gradient_accumulation_steps) == (3, 1)
    plan, problems = derive(planner.load(planner.write(scale.replace("6}", "7}"), more=more)))[:2]
    assert plan is None
    assert "data-parallel size 2" in planner.only(problems).message


@pytest.mark.parametrize(
    "more",
    [
        "parallelism: {tensor: 2147483643}",
        "parallelism: {pipeline: 2147483647}",
        "parallelism: {tensor: 46337}",
    ],
)
def test_huge_counts_are_judged_at_once(planner: Planner, more: str) -> None:
    count = 2147483647
    lines = f"instance_count: {count}\n    process_count_per_instance: {count}\n    {more}"
    scale = planner.scaled(
        "optimizer: sgd", f"batch_size_per_device: {count}", "gradient_accumulation_steps: 3"
    )
    plan, problems = derive(planner.load(planner.write(scale, size="Standard_D16s_v5", more=lines)))[:2]
    assert plan is None or "pipeline" in more
    assert problems


def test_why_no_strategy_is_planned(planner: Planner) -> None:
    plan, _ = planner.planned(planner.write())
    assert "degrees determine one" in explain_missing(plan, "train", "strategy")[1]


@given(
    instances=st.integers(1, 6),
    processes=st.integers(1, 8),
    tensor=st.integers(1, 8),
    pipeline=st.integers(1, 4),
    b=st.integers(1, 64),
    a=st.integers(1, 16),
    slots=st.integers(1, 48),
    grow=st.booleans(),
)
def test_the_laws_of_meshes(
    planner: Planner, *, instances: int, processes: int, tensor: int, pipeline: int, b: int, a: int,
    slots: int, grow: bool,
) -> None:  # fmt: skip
    """The mesh is the world; only replicas count; fewer processes change neither batch nor model."""
    world = instances * processes
    more = (
        f"instance_count: {instances}\n    process_count_per_instance: {processes}\n"
        f"    parallelism: {{tensor: {tensor}, pipeline: {pipeline}}}"
    )
    scale = planner.scaled(
        "optimizer: sgd", f"batch_size_per_device: {b}", f"gradient_accumulation_steps: {a}"
    )
    plan, problems = derive(planner.load(planner.write(scale, size="Standard_D16s_v5", more=more)))[:2]
    if world % (tensor * pipeline):
        assert plan is None
        assert [problem.slug for problem in problems] == ["degree-does-not-divide"]
        return
    assert plan is not None
    step, training = plan.steps["train"], planner.training(plan)
    assert math.prod(mesh(step)) == step.topology.world_size == world
    assert training.global_batch_size == b * a * step.topology.data_parallel_size
    assert training.shard_count % step.topology.data_parallel_size == 0
    same_training(step, localise(step, slots, grow=grow), slots, grow=grow)


def same_training(before: StepPlan, here: StepPlan, slots: int, *, grow: bool) -> None:
    assert before.training is not None
    assert here.training is not None
    data, tensor, pipeline = mesh(here)
    _, planned_tensor, planned_pipeline = mesh(before)
    assert data * tensor * pipeline == here.topology.world_size <= slots
    assert grow or here.topology.world_size <= before.topology.world_size
    assert here.training.batch_size_per_device == before.training.batch_size_per_device
    assert here.training.global_batch_size == before.training.global_batch_size
    product = here.training.batch_size_per_device * here.training.gradient_accumulation_steps * data
    assert product == before.training.global_batch_size
    assert planned_tensor % tensor == planned_pipeline % pipeline == 0
    if slots >= planned_tensor * planned_pipeline:
        assert (tensor, pipeline) == (planned_tensor, planned_pipeline), "replicas go before degrees"
    own, planned_own = (pipeline, planned_pipeline) if planned_pipeline > 1 else (tensor, planned_tensor)
    assert own > 1 or planned_own == 1 or data == 1, "a strategy splits, unless one process is alone"
    if before.training.gradient_accumulation_steps >= planned_pipeline:
        assert here.training.gradient_accumulation_steps >= pipeline, "no stage loses its micro-batch"
    assert here.inputs["tensor_parallel_size"] == tensor
    assert here.inputs["learning_rate"] == before.inputs["learning_rate"]


@pytest.mark.parametrize(
    ("slots", "degrees", "accumulation"),
    [(8, (2, 2, 2), 1), (7, (1, 2, 2), 2), (4, (1, 2, 2), 2), (3, (1, 1, 2), 2), (1, (1, 1, 1), 2)],
)
def test_replicas_go_first_then_the_degrees(
    planner: Planner, slots: int, degrees: tuple[int, int, int], accumulation: int
) -> None:
    more = "instance_count: 2\n    parallelism: {tensor: 2, pipeline: 2}"
    plan, _ = planner.planned(planner.write(more=more))
    here = localise(plan.steps["train"], slots)
    assert mesh(here) == degrees
    assert here.training is not None
    assert here.training.gradient_accumulation_steps == accumulation


PIPELINE = """\
    type: pipeline
    jobs:
      train:
        type: command
        command: python train.py --tensor ${{inputs.tensor}} --accumulation ${{inputs.accumulation}}
        environment: azureml:env:1
        distribution: {type: pytorch, process_count_per_instance: 4}
        resources: {instance_count: 2}
        inputs: {tensor: 2, accumulation: 1}
"""


@pytest.mark.parametrize(
    ("processes", "here", "accumulation", "why"),
    [
        (None, "2 here (1 data × 2 tensor × 1 pipeline)", 4, ""),
        (1, "1 here (1 data × 1 tensor × 1 pipeline)", 4, ""),
        (
            5,
            "4 here (2 data × 2 tensor × 1 pipeline)",
            2,
            "; 5 are not a multiple of the 2 that hold a model",
        ),
        (
            6,
            "4 here (2 data × 2 tensor × 1 pipeline)",
            2,
            "; 3 replicas do not share its 4 micro-batches equally",
        ),
    ],
)
def test_running_here_says_the_mesh_in_one_line(
    planner: Planner, tmp_path: Path, *, processes: int | None, here: str, accumulation: int, why: str
) -> None:
    plan, _ = planner.planned(planner.write(more="instance_count: 2\n    parallelism: {tensor: 2}"))
    given = {"tensor": "tensor_parallel_size", "accumulation": "gradient_accumulation_steps"}
    templates = {"train": {name: f"${{{{plan.{quantity}}}}}" for name, quantity in given.items()}}
    (tmp_path / "plan.json").write_bytes(plan_file.dump(plan, templates, []))
    path = tmp_path / "pipeline.yml"
    path.write_text(textwrap.dedent(PIPELINE), encoding="utf-8")
    found, _ = job.read_job(path)
    assert found is not None
    compiled = plan_file.load(path.parent)
    assert compiled is not None
    tasks = flatten(found, AssetMap())[0].tasks
    fitted = fit_tasks(tasks, path, *compiled, Room(Machine(cores=2), processes))
    said = f"train: planned for 8 processes (4 data × 2 tensor × 1 pipeline), running {here}"
    assert fitted.notices == [f"{said} with accumulation ×{accumulation}, global batch 128 unchanged{why}"]
    given = fitted.tasks["train"].inputs["tensor"]
    assert isinstance(given, Text)
    assert given.value == (1 if processes == 1 else 2)
