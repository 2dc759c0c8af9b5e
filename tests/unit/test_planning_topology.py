"""Where steps run and in how many processes; pinned counts are verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import worldsize
from worldsize.planning.derive import derive
from worldsize.planning.model import Interface

Planner = Any  # the fixture's class lives in conftest.py


@pytest.mark.parametrize(
    ("more", "slug", "numbers"),
    [
        ("process_count_per_instance: 16", "processes-exceed-gpus", ("16", "4")),
        ("process_count_per_instance: 2", "processes-below-gpus", ("2", "4")),
        ("instance_count: 5", "instance-count-exceeds-max", ("5", "4")),
    ],
)
def test_pinned_counts_are_judged_by_one_rule_each(
    planner: Planner, tmp_path: Path, more: str, slug: str, numbers: tuple[str, ...]
) -> None:
    pinned = ", rows: 10000, epochs: 1, global_batch_size: 7"  # 7 is a multiple of no world size
    text = planner.write(f"{planner.sgd[:-1]}{pinned if numbers[0] != '2' else ''}}}", more=more)
    text = text.replace(planner.gpu, f"{planner.gpu}, max_instances: 4")
    problem = planner.only(planner.check(tmp_path, text))
    assert (problem.slug, planner.marked(text, problem)) == (slug, numbers[0])
    assert all(number in problem.message for number in numbers)


def test_what_follows_from_a_wrong_count_is_said_where_that_is_silenced(
    planner: Planner, tmp_path: Path
) -> None:
    scale = f"{planner.sgd[:-1]}, global_batch_size: 7}}"
    text = planner.write(scale, more="process_count_per_instance: 16  # worldsize: ignore[WS203] known")
    assert planner.check(tmp_path, text) == []
    with pytest.raises(worldsize.SpecError, match="which is not a multiple of world size 16"):
        worldsize.plan(tmp_path / "spec.yml")


def test_a_fraction_of_a_card_takes_one_process(planner: Planner) -> None:
    plan, problems = planner.planned(planner.write(size="Standard_NV6ads_A10_v5"))
    assert problems == []
    assert plan.steps["train"].topology.process_count_per_instance == 1
    assert plan.steps["train"].topology.gpus_per_instance == pytest.approx(1 / 6, abs=1e-3)


def test_a_cpu_size_takes_what_is_pinned(planner: Planner) -> None:
    plan, problems = planner.planned(
        planner.write(size="Standard_D16s_v5", more="process_count_per_instance: 8")
    )
    assert problems == []
    assert plan.steps["train"].topology.world_size == 8
    assert planner.planned(planner.write(size="Standard_D16s_v5"))[0].steps["train"].topology.world_size == 1


@pytest.mark.parametrize(
    ("size", "slug", "says"),
    [
        ("Standard_NC24s_v3", "vm-size-retired", "2025-09-30"),
        ("Standard_NC128ds_xl_RTXPRO6000BSE_v6", "vm-size-retired", "no longer deploys"),
        ("Standard_HB120rs_v2", "vm-size-retiring", "2027-05-31"),
    ],
)
def test_sizes_that_are_retired_or_will_be(
    planner: Planner, tmp_path: Path, size: str, slug: str, says: str
) -> None:
    problem = planner.only(planner.check(tmp_path, planner.write(size=size)))
    assert problem.slug == slug
    assert says in problem.message


def test_an_unknown_size_matters_only_where_gpus_are_counted(planner: Planner, tmp_path: Path) -> None:
    typo = "Standard_NC96ads_A100v4"
    assert derive(planner.load(planner.write(size=typo))).plan is None
    problem = planner.only(planner.check(tmp_path, planner.write(size=typo)))
    assert problem.slug == "process-count-unknown"
    assert f"`{planner.gpu}`" in (problem.help or "")
    pinned = planner.write(size=typo, more="process_count_per_instance: 4")
    warned = planner.only(planner.check(tmp_path, pinned))
    assert (warned.slug, warned.help) == ("vm-size-unknown", f"did you mean `{planner.gpu}`?")
    assert planner.planned(pinned)[1] == []
    single = planner.write(None, size=typo, distribution=None)
    assert planner.only(planner.check(tmp_path, single)).slug == "vm-size-unknown"
    assert (
        planner.only(derive(planner.load(planner.write(size=None))).problems).slug == "process-count-unknown"
    )
    assert planner.planned(planner.write(size=None, more="process_count_per_instance: 4"))[1] == []


def test_a_size_of_two_steps_is_reported_once(planner: Planner, tmp_path: Path) -> None:
    text = planner.write(size="Standard_HB120rs_v2")
    again = text.split("steps:\n")[1].replace("train:", "again:", 1)
    assert len(planner.check(tmp_path, text + again)) == 1


def test_tensorflow_drives_all_gpus_with_one_process(planner: Planner) -> None:
    plan, problems = planner.planned(
        planner.write(distribution="{type: tensorflow}", more="instance_count: 2")
    )
    assert problems == []
    found = plan.steps["train"].topology
    assert (found.process_count_per_instance, found.worker_count, found.world_size) == (1, 2, 8)
    assert planner.training(plan).global_batch_size == 256


def test_tensorflow_counts_are_verified(planner: Planner, tmp_path: Path) -> None:
    text = planner.write(distribution="{type: tensorflow, worker_count: 4}", more="instance_count: 2")
    problem = planner.only(planner.check(tmp_path, text))
    assert (problem.slug, planner.marked(text, problem)) == ("worker-count-disagrees", "4")
    text = planner.write(distribution="{type: tensorflow}", more="process_count_per_instance: 4")
    assert planner.only(planner.planned(text)[1]).slug == "tensorflow-one-process"
    unknown = derive(planner.load(planner.write(distribution="{type: tensorflow}", size="Standard_Foo")))
    assert unknown.plan is None
    assert "TensorFlow drives all GPUs" in (planner.only(unknown.problems).help or "")


def test_parameter_servers_may_have_instances_of_their_own(planner: Planner, tmp_path: Path) -> None:
    counts = "worker_count: 2, parameter_server_count: 1"
    text = planner.write(distribution=f"{{type: tensorflow, {counts}}}", more="instance_count: 3")
    plan, problems = planner.planned(text)
    assert problems == []
    assert plan.steps["train"].topology.world_size == 8
    assert planner.check(tmp_path, text) == []
    shared = planner.only(planner.check(tmp_path, text.replace("instance_count: 3", "instance_count: 2")))
    assert shared.slug == "parameter-servers-share-instances"


def test_processes_need_a_distribution(planner: Planner) -> None:
    text = planner.write(None, distribution=None, more="process_count_per_instance: 4")
    assert planner.only(planner.planned(text)[1]).slug == "processes-without-distribution"


COMPONENT = """\
name: test
compute: {gpu: {target: azureml:gpu, instance_type: Standard_NC96ads_A100_v4}}
steps:
  train: {uses: "%s", scale: {reference: {batch_size: 32, learning_rate: 0.05}}, with: {optimizer: sgd}%s}
"""


def test_the_component_says_how_it_is_started(planner: Planner) -> None:
    spec = planner.load(COMPONENT % ("train_ddp", ""))
    interface = Interface({"epochs": 12, "loader_workers": 4}, "pytorch", instance_count=3)
    plan, problems = derive(spec, {"train": interface}, {"train": 10_000})[:2]
    assert problems == []
    assert plan is not None
    assert plan.steps["train"].topology.world_size == 12
    assert planner.training(plan).total_steps == 12 * (10_000 // 384)
    assert (planner.training(plan).shard_count, planner.training(plan).shards_per_rank) == (48, 4)


@pytest.mark.parametrize(("more", "launcher"), [("", "pytorch"), (", worker_count: 1", "tensorflow")])
def test_a_component_that_cannot_be_seen_is_known_by_its_counts(
    planner: Planner, more: str, launcher: str
) -> None:
    plan, problems = derive(planner.load(COMPONENT % ("azureml:mine:1", more)))[:2]
    assert problems == []
    assert plan is not None
    assert plan.steps["train"].topology.launcher == launcher


@pytest.mark.parametrize(
    ("command", "started", "source"),
    [
        ("torchrun --nproc-per-node 4 train.py", 4, "given in the command"),
        ("torchrun train.py", 1, "default of `torchrun`"),
        ("torchrun --nproc-per-node gpu train.py", 4, "given in the command"),
        ("deepspeed --include localhost:0,1 train.py", 2, "given in the command"),
        ("deepspeed train.py", 4, "one a GPU"),
    ],
)
def test_the_plan_says_why_a_launcher_starts_so_many(
    planner: Planner, command: str, started: int, source: str
) -> None:
    text = f"""\
name: test
compute: {{gpu: {{target: azureml:gpu, instance_type: Standard_NC96ads_A100_v4}}}}
steps:
  train:
    command: {command}
    environment: azureml:e:1
    scale: {{reference: {{batch_size: 32, learning_rate: 0.05}}, optimizer: sgd}}
"""
    plan, problems = derive(planner.load(text))[:2]
    assert plan is not None, problems
    row = plan.steps["train"].find_row("local_world_size")
    assert row is not None
    assert (row.value, row.source) == (started, source)
