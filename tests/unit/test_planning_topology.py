"""Where steps run and in how many processes; pinned counts are verified."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from worldsize.planning import Interface, derive

Planner = Any  # the fixture's class lives in conftest.py


@pytest.mark.parametrize(
    ("more", "slug", "mark"),
    [
        ("process_count_per_instance: 16", "processes-exceed-gpus", "16"),
        ("process_count_per_instance: 1", "processes-below-gpus", "1"),
        ("instance_count: 5", "instance-count-exceeds-max", "5"),
    ],
)
def test_pinned_counts_are_verified(planner: Planner, more: str, slug: str, mark: str) -> None:
    text = planner.write(more=more, profile=", max_instances: 4")
    problem = planner.only(planner.planned(text)[1])
    assert (problem.slug, planner.marked(text, problem)) == (slug, mark)
    numbers = {"processes-exceed-gpus": ("16", "4"), "processes-below-gpus": ("1", "4")}
    assert all(number in problem.message for number in numbers.get(slug, ("5", "4")))
    assert (
        planner.planned(planner.write(more="process_count_per_instance: 4", profile=", max_instances: 4"))[1]
        == []
    )


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
def test_sizes_that_go_or_are_gone(planner: Planner, size: str, slug: str, says: str) -> None:
    problem = planner.only(
        planner.planned(
            planner.write(size=size, more=f"process_count_per_instance: {4 if '24' in size else 1}")
        )[1]
    )
    assert problem.slug == slug
    assert says in problem.message


def test_the_day_may_be_chosen(planner: Planner) -> None:
    text = planner.write(size="Standard_HB120rs_v2")
    assert planner.only(planner.planned(text, today=date(2027, 6, 1))[1]).slug == "vm-size-retired"


def test_an_unknown_size_matters_only_where_gpus_are_counted(planner: Planner) -> None:
    typo = "Standard_NC96ads_A100v4"
    plan, problems = derive(planner.load(planner.write(size=typo)))
    assert plan is None
    assert planner.only(problems).slug == "process-count-unknown"
    assert f"`{planner.gpu}`" in (planner.only(problems).help or "")
    warned = planner.only(planner.planned(planner.write(size=typo, more="process_count_per_instance: 4"))[1])
    assert (warned.slug, warned.help) == ("vm-size-unknown", f"did you mean `{planner.gpu}`?")
    assert (
        planner.only(planner.planned(planner.write(None, size=typo, distribution=None))[1]).slug
        == "vm-size-unknown"
    )
    assert planner.only(derive(planner.load(planner.write(size=None)))[1]).slug == "process-count-unknown"
    assert planner.planned(planner.write(size=None, more="process_count_per_instance: 4"))[1] == []


def test_a_size_of_two_steps_is_reported_once(planner: Planner) -> None:
    text = planner.write(size="Standard_HB120rs_v2")
    again = text.split("steps:\n")[1].replace("train:", "again:", 1)
    assert len(planner.planned(text + again)[1]) == 1


def test_tensorflow_drives_all_gpus_with_one_process(planner: Planner) -> None:
    plan, problems = planner.planned(
        planner.write(distribution="{type: tensorflow}", more="instance_count: 2")
    )
    assert problems == []
    found = plan.steps["train"].topology
    assert (found.process_count_per_instance, found.worker_count, found.world_size) == (1, 2, 8)
    assert planner.training(plan).global_batch_size == 256


def test_tensorflow_counts_are_verified(planner: Planner) -> None:
    text = planner.write(distribution="{type: tensorflow, worker_count: 4}", more="instance_count: 2")
    problem = planner.only(planner.planned(text)[1])
    assert (problem.slug, planner.marked(text, problem)) == ("worker-count-disagrees", "4")
    text = planner.write(distribution="{type: tensorflow}", more="process_count_per_instance: 4")
    assert planner.only(planner.planned(text)[1]).slug == "tensorflow-one-process"
    unknown = derive(planner.load(planner.write(distribution="{type: tensorflow}", size="Standard_Foo")))
    assert unknown[0] is None
    assert "TensorFlow drives all GPUs" in (planner.only(unknown[1]).help or "")


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
    plan, problems = derive(spec, {"train": interface}, {"train": 10_000})
    assert problems == []
    assert plan is not None
    assert plan.steps["train"].topology.world_size == 12
    assert planner.training(plan).total_steps == 12 * (10_000 // 384)
    assert (planner.training(plan).shard_count, planner.training(plan).shards_per_rank) == (48, 4)


@pytest.mark.parametrize(("more", "launcher"), [("", "pytorch"), (", worker_count: 1", "tensorflow")])
def test_a_component_that_cannot_be_seen_is_known_by_its_counts(
    planner: Planner, more: str, launcher: str
) -> None:
    plan, problems = derive(planner.load(COMPONENT % ("azureml:mine:1", more)))
    assert problems == []
    assert plan is not None
    assert plan.steps["train"].topology.launcher == launcher
