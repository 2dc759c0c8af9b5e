"""The plan of processes: pure, printable, compared with committed text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.running import launchers, preview, processes
from worldsize.running.processes import Call

GOLDEN = Path(__file__).parents[1] / "golden" / "processes"
CASES = {
    "plain": Call("shard", "none", "python shard.py --seed 0", env={"AZUREML_RUN_ID": "r_shard"}, cores=8),
    "pytorch_one": Call("train", "pytorch", "python train.py --lr 1e-05", cores=3),
    "pytorch_two_by_four": Call(
        "train", "pytorch", "python train.py && echo 'all done'", 2, 4, {"AZUREML_NODE_COUNT": "2"}, cores=24
    ),
    "pytorch_some_gpus": Call(
        "train", "pytorch", "python train.py", 2, 2, gpus=("2", "3", "5", "7"), cores=64
    ),
    "secrets_are_hidden": Call(
        "train",
        "none",
        "python train.py",
        env={"HF_TOKEN": "abc", "DB_PASSWORD": "xyz", "max_tokens": "12", "OMP_NUM_THREADS": "3"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_the_committed_one(name: str, update_golden: bool) -> None:
    call = CASES[name]
    ports = ["{port}"] * processes.ports_needed(call)
    text = preview.render({call.step: processes.plan(call, ports)})
    path = GOLDEN / f"{name}.txt"
    if update_golden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(sorted(launchers.LAUNCHERS)))
def test_ranks_and_places_are_a_bijection(instances: int, per_instance: int, launcher: str) -> None:
    if launcher == "none":
        instances = per_instance = 1
    call = Call("s", launcher, "true", instances, per_instance)
    plan = processes.plan(call, ["1"] * processes.ports_needed(call))
    assert [process.rank for process in plan] == list(range(instances * per_instance))
    places = {(process.node, process.local_rank) for process in plan}
    assert places == {(node, local) for node in range(instances) for local in range(per_instance)}
    assert len({process.name for process in plan}) == len(plan)
    for process in plan:
        assert process.env["AZUREML_CR_NODE_RANK"] == str(process.node)
        if launcher == "pytorch":
            assert process.env["RANK"] == str(process.rank)
            assert process.env["LOCAL_RANK"] == str(process.local_rank)
            assert process.env["WORLD_SIZE"] == str(len(plan))


@given(st.integers(1, 4), st.integers(1, 4))
def test_emulated_instances_share_no_gpu(instances: int, per_instance: int) -> None:
    gpus = tuple(str(number) for number in range(instances * per_instance))
    plan = processes.plan(Call("s", "pytorch", "true", instances, per_instance, gpus=gpus), ["1"])
    seen = [process.env["CUDA_VISIBLE_DEVICES"].split(",")[process.local_rank] for process in plan]
    assert sorted(seen, key=int) == list(gpus)


def test_no_launcher_sets_what_azure_does_not_promise() -> None:
    plan = processes.plan(Call("s", "pytorch", "true", 1, 2), ["1"])
    assert all("LOCAL_WORLD_SIZE" not in process.env for process in plan)


def test_the_contract_wins_over_a_steps_own_variables() -> None:
    plan = processes.plan(Call("s", "pytorch", "true", 1, 2, {"RANK": "9", "MASTER_PORT": "29500"}), ["4711"])
    assert [process.env["RANK"] for process in plan] == ["0", "1"]
    assert {process.env["MASTER_PORT"] for process in plan} == {"4711"}
