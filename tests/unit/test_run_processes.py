"""The plan of processes: pure, printable, compared with committed text."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.running import api as run
from worldsize.running.launch import launchers
from worldsize.running.launch.group import make_request
from worldsize.running.launch.launchers import count_ports, plan_processes
from worldsize.running.model.process import Call, walk_processes
from worldsize.running.show import preview
from worldsize.running.show.preview import render_preview

GOLDEN = Path(__file__).parents[1] / "golden" / "processes"
CASES = {
    "plain": Call(
        step="shard",
        launcher="none",
        command="python shard.py --seed 0",
        env={"AZUREML_RUN_ID": "r_shard"},
        cores=8,
    ),
    "pytorch_one": Call(step="train", launcher="pytorch", command="python train.py --lr 1e-05", cores=3),
    "pytorch_two_by_four": Call(
        step="train",
        launcher="pytorch",
        command="python train.py && echo 'all done'",
        instance_count=2,
        process_count_per_instance=4,
        env={"AZUREML_NODE_COUNT": "2"},
        cores=24,
    ),
    "pytorch_some_gpus": Call(
        step="train",
        launcher="pytorch",
        command="python train.py",
        instance_count=2,
        process_count_per_instance=2,
        gpus=("2", "3", "5", "7"),
        cores=64,
    ),
    "tensorflow_two_by_two": Call(
        step="train",
        launcher="tensorflow",
        command="python train.py",
        instance_count=2,
        worker_count=2,
        gpus=("0", "1", "2", "3"),
        cores=8,
    ),
    "tensorflow_with_servers": Call(
        step="train",
        launcher="tensorflow",
        command="python train.py",
        instance_count=2,
        worker_count=2,
        parameter_server_count=1,
        cores=8,
    ),
    "mpi_one": Call(step="train", launcher="mpi", command="python train.py", cores=2),
    "mpi_two_by_two": Call(
        step="train",
        launcher="mpi",
        command="python train.py",
        instance_count=2,
        process_count_per_instance=2,
        env={"OMPI_MCA_pml": "ucx"},
        gpus=("2", "3", "5", "7"),
        cores=2,
    ),
    "long_command": Call(
        step="train",
        launcher="pytorch",
        command="python train.py --names 'a b' --learning-rate 0.1 --batch-size-per-device 32"
        " --weight-decay 0.0001 --epochs 30 --output ./outputs && echo 'all done'",
        instance_count=1,
        process_count_per_instance=2,
        cores=2,
    ),
    "secrets_are_hidden": Call(
        step="train",
        launcher="none",
        command="python train.py",
        env={"HF_TOKEN": "abc", "DB_PASSWORD": "xyz", "max_tokens": "12", "OMP_NUM_THREADS": "3"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_the_committed_one(name: str, update_golden: bool) -> None:
    call = CASES[name]
    ports = preview.ports(count_ports(call))
    text = render_preview({call.step: plan_processes(call, ports)})
    text = text.replace(sys.executable, "{python}").replace(str(launchers.MEMBER), "{member}")
    path = GOLDEN / f"{name}.txt"
    if update_golden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("own", "shown"), [("", "5"), ("environment_variables: {OMP_NUM_THREADS: '7'}", "7")]
)
def test_the_users_number_of_threads_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, shown: str
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    schema = "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\n"
    job = tmp_path / "job.yml"
    job.write_text(f"{schema}command: echo 1\nenvironment: azureml:e:1\n{own}\n", encoding="utf-8")
    (processes,) = run.dry_run(str(job)).values()
    assert [process.env["OMP_NUM_THREADS"] for process in processes] == [shown]


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(sorted(launchers.LAUNCHERS)))
def test_ranks_and_places_are_a_bijection(instances: int, per_instance: int, launcher: str) -> None:
    if launcher == "none":
        instances = per_instance = 1
    call = Call(
        step="s",
        launcher=launcher,
        command="true",
        instance_count=instances,
        process_count_per_instance=per_instance,
    )
    started = plan_processes(call, ["1"] * count_ports(call))
    plan = [process for process in walk_processes(started) if not process.members]
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
        if launcher == "mpi":
            assert process.env["OMPI_COMM_WORLD_RANK"] == str(process.rank)
            assert process.env["OMPI_COMM_WORLD_LOCAL_RANK"] == str(process.local_rank)
            assert process.env["OMPI_COMM_WORLD_SIZE"] == str(len(plan))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 4))
def test_tensorflow_tasks_are_a_bijection_onto_their_addresses(
    instances: int, workers: int, servers: int
) -> None:
    call = Call(
        step="s",
        launcher="tensorflow",
        command="true",
        instance_count=instances,
        worker_count=workers,
        parameter_server_count=servers,
    )
    plan = plan_processes(call, [str(port) for port in range(count_ports(call))])
    configs = [json.loads(process.env["TF_CONFIG"]) for process in plan]
    (cluster,) = {json.dumps(config["cluster"]) for config in configs}
    jobs = json.loads(cluster)
    assert set(jobs) == ({"worker", "ps"} if servers else {"worker"})  # an empty `ps` crashes TensorFlow
    own = [jobs[config["task"]["type"]][config["task"]["index"]] for config in configs]
    assert own == [f"127.0.0.1:{port}" for port in range(workers + servers)]
    assert {config["environment"] for config in configs} == {"cloud"}
    tasks = [f"{config['task']['type']}-{config['task']['index']}" for config in configs]
    assert [process.name for process in plan] == tasks
    assert [process.serves for process in plan] == [task.startswith("ps") for task in tasks]
    assert len({(process.node, process.local_rank) for process in plan}) == len(plan)
    # Worker 0 and parameter server 0 stand on the first instance.
    first = {process.name for process in plan if process.node == 0}
    assert first >= {"worker-0", *(["ps-0"] if servers else [])}


def test_a_settings_of_mpi_gives_way_to_the_steps_own() -> None:
    (started,) = plan_processes(
        Call(
            step="s",
            launcher="mpi",
            command="true",
            instance_count=1,
            process_count_per_instance=2,
            env={"OMPI_MCA_pml": "ucx"},
        ),
        [],
    )
    assert started.env["OMPI_MCA_pml"] == "ucx"
    assert started.env["OMPI_MCA_btl"].startswith("^tcp")


@given(st.integers(1, 5), st.integers(1, 5))
def test_a_member_gets_what_its_launcher_does_not_have(instances: int, per_instance: int) -> None:
    """What the guard is sent gives each rank exactly the variables of the plan."""
    call = Call(
        step="s",
        launcher="mpi",
        command="true",
        instance_count=instances,
        process_count_per_instance=per_instance,
        env={"A": "1"},
        gpus=tuple("01234567"),
    )
    plan = plan_processes(call, ["1"] * count_ports(call))
    known = tuple(walk_processes(plan))
    request = make_request(plan[0], known, Path("logs"), Path("folder"))
    table = json.loads(request["env"].pop("WORLDSIZE_MEMBERS"))
    assert [member["log"] for member in table["members"]] == [f"logs/{each.name}.log" for each in known[1:]]
    for member, process in zip(table["members"], known[1:], strict=True):
        assert known[member["index"]] is process
        got = {**request["env"], **member["env"]}
        assert {name: got[name] for name in process.env} == process.env


@given(st.integers(1, 4), st.integers(1, 4))
def test_emulated_instances_share_no_gpu(instances: int, per_instance: int) -> None:
    gpus = tuple(str(number) for number in range(instances * per_instance))
    plan = plan_processes(
        Call(
            step="s",
            launcher="pytorch",
            command="true",
            instance_count=instances,
            process_count_per_instance=per_instance,
            gpus=gpus,
        ),
        ["1"],
    )
    seen = [process.env["CUDA_VISIBLE_DEVICES"].split(",")[process.local_rank] for process in plan]
    assert sorted(seen, key=int) == list(gpus)


def test_no_launcher_sets_what_azure_does_not_promise() -> None:
    plan = plan_processes(
        Call(step="s", launcher="pytorch", command="true", instance_count=1, process_count_per_instance=2),
        ["1"],
    )
    assert all("LOCAL_WORLD_SIZE" not in process.env for process in plan)


def test_the_contract_wins_over_a_steps_own_variables() -> None:
    plan = plan_processes(
        Call(
            step="s",
            launcher="pytorch",
            command="true",
            instance_count=1,
            process_count_per_instance=2,
            env={"RANK": "9", "MASTER_PORT": "29500"},
        ),
        ["4711"],
    )
    assert [process.env["RANK"] for process in plan] == ["0", "1"]
    assert {process.env["MASTER_PORT"] for process in plan} == {"4711"}
