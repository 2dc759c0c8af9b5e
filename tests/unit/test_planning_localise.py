"""A plan for many GPUs on one machine: the same global batch, with more accumulation."""

from __future__ import annotations

import pytest

from worldsize.planning.derive import planned_inputs
from worldsize.planning.localise import localise
from worldsize.planning.model import Plan, StepPlan, Topology, Training
from worldsize.planning.quantities import explain_missing


def training(b: int, a: int, world: int, rows: int | None = 1438) -> Training:
    return Training(
        optimizer="sgd",
        batch_size_per_device=b,
        gradient_accumulation_steps=a,
        global_batch_size=b * a * world,
        reference_batch_size=b,
        kappa=float(a * world),
        rule="linear",
        reference_learning_rate=0.05,
        learning_rate=0.05 * a * world,
        epochs=20.0,
        warmup_epochs=2.0,
        rows=rows,
        steps_per_epoch=None if rows is None else rows // (b * a * world),
        total_steps=None,
        warmup_steps=None,
        shard_count=world,
        shards_per_rank=1,
    )


def step(name: str, topology: Topology, found: Training | None) -> StepPlan:
    return StepPlan(name, topology, found, inputs=planned_inputs(topology, found))


EIGHT = Topology("pytorch", "Standard_NC96ads_A100_v4", 2, 4, 4, 8)


def plan(*steps: StepPlan) -> Plan:
    return Plan("test", {each.step: each for each in steps})


@pytest.mark.parametrize(
    ("slots", "world", "accumulation"), [(1, 1, 8), (2, 2, 4), (3, 2, 4), (7, 4, 2), (8, 8, 1), (64, 8, 1)]
)
def test_as_many_processes_as_divide_the_work(slots: int, world: int, accumulation: int) -> None:
    local = localise(step("train", EIGHT, training(32, 1, 8)), slots)
    assert local.training is not None
    assert (local.topology.world_size, local.training.gradient_accumulation_steps) == (world, accumulation)
    assert local.topology.instance_count == 1
    assert local.topology.process_count_per_instance == world
    assert local.training.global_batch_size == 256
    assert local.inputs["learning_rate"] == 0.4
    assert local.inputs["shard_count"] == 8


def test_each_step_finds_its_own() -> None:
    six = Topology("mpi", None, 1, None, 6, 6)
    assert localise(step("a", EIGHT, training(32, 1, 8)), 5).topology.world_size == 4
    assert localise(step("b", six, training(16, 1, 6)), 5).topology.world_size == 3


def test_growing_is_asked_for() -> None:
    one = step("train", Topology("pytorch", None, 1, 1, 1, 1), training(8, 4, 1))
    assert localise(one, 4).topology.world_size == 1
    grown = localise(one, 4, grow=True)
    assert grown.topology.world_size == 4
    assert grown.training is not None
    assert grown.training.gradient_accumulation_steps == 1


def test_a_step_that_does_not_train() -> None:
    alone = localise(step("shard", Topology("none", "Standard_D16s_v5", 2, 0, 1, 1), None), 3)
    assert (alone.topology.instance_count, alone.topology.process_count_per_instance) == (1, 1)
    several = localise(step("score", EIGHT, None), 3)
    assert several.topology.world_size == several.inputs["world_size"] == 3


def test_tensorflow_runs_one_worker_a_process() -> None:
    topology = Topology("tensorflow", None, 2, 4, 1, 8, worker_count=2, parameter_server_count=None)
    local = localise(step("train", topology, training(32, 1, 8)), 2)
    assert (local.topology.worker_count, local.topology.world_size) == (2, 2)


def test_workers_of_parameter_servers_keep_their_own_batch() -> None:
    four = Topology("tensorflow", None, 4, 0, 1, 4, worker_count=4, parameter_server_count=1)
    found = training(32, 2, 1)
    local = localise(step("train", four, found), 2)
    assert (local.topology.world_size, local.topology.worker_count) == (2, 2)
    assert (local.topology.data_parallel_size, local.topology.parameter_server_count) == (1, 1)
    assert local.training == found


def test_why_a_quantity_is_missing() -> None:
    unknown = step("train", EIGHT, training(32, 1, 8, rows=None))
    alone = step("shard", Topology("none", None, 1, 0, 1, 1), None)
    found = plan(alone, unknown)
    assert "`rows:` under `scale:` of step `train`" in explain_missing(found, "train", "total_steps")[1]
    assert "`rows:` under `scale:` of step `train`" in explain_missing(found, "shard", "warmup_steps")[1]
    assert "tensorflow" in explain_missing(found, "train", "worker_count")[1]
    assert "add `scale:`" in explain_missing(plan(alone), "shard", "learning_rate")[1]


@pytest.mark.parametrize(
    ("processes", "grow", "shape", "accumulation"),
    [
        (1, False, (2, 1), 4),  # at least one an instance
        (2, False, (2, 1), 4),
        (3, False, (2, 1), 4),
        (4, False, (2, 2), 2),
        (6, False, (2, 2), 2),  # 3 each do not share 8 micro-batches
        (64, False, (2, 4), 1),
        (8, True, (2, 4), 1),
    ],
)
def test_instances_that_are_kept_share_the_processes(
    processes: int, grow: bool, shape: tuple[int, int], accumulation: int
) -> None:
    whole = step("train", EIGHT, training(32, 1, 8))
    local = localise(whole, processes, grow=grow, keep_instances=True)
    assert (local.topology.instance_count, local.topology.process_count_per_instance) == shape
    assert local.topology.world_size == shape[0] * shape[1] == local.inputs["world_size"]
    assert (local.inputs["instance_count"], local.inputs["process_count_per_instance"]) == shape
    assert local.training is not None
    assert local.training.gradient_accumulation_steps == accumulation
    assert local.training.global_batch_size == 256


def test_instances_that_cannot_share_equally_become_one() -> None:
    odd = Topology("pytorch", "Standard_NC96ads_A100_v4", 3, 4, 2, 6, tensor_parallel_size=2)
    local = localise(step("train", odd, training(16, 1, 3)), 2, keep_instances=True)
    assert local.topology.instance_count in (1, 3)
    assert local.topology.world_size % local.topology.instance_count == 0
