"""Who a TensorFlow process is, and how processes meet: without TensorFlow, and in a moment."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from wsshards.errors import UserError
from wstrain.launch import consistency
from wstrain_tensorflow.launch import tf_config
from wstrain_tensorflow.launch.rendezvous import Rendezvous

LIBRARY = Path(__file__).parents[2] / "components" / "_shared"
TWO = ["a:1", "b:2"]


def config(task: Any, **cluster: Any) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})}


def test_azure_s_config_is_read_and_an_empty_ps_left_out() -> None:
    found = tf_config.read_tf_config(config({"type": "worker", "index": 1}, worker=TWO, ps=[]))
    assert (found.task, found.index, found.workers, found.servers) == ("worker", 1, ("a:1", "b:2"), ())
    assert not found.is_main
    assert found.worker_count == 2
    assert json.loads(found.config()) == {
        "cluster": {"worker": TWO},
        "task": {"type": "worker", "index": 1},
    }


def test_parameter_servers_are_members_after_the_workers() -> None:
    found = tf_config.read_tf_config(config({"type": "ps", "index": 0}, worker=TWO, ps=["a:3"]))
    assert [name for name, _ in found.members] == ["worker 0", "worker 1", "ps 0"]
    assert (found.number, found.is_main, found.worker_count) == (2, False, 2)


@pytest.mark.parametrize("env", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}, {"WORLD_SIZE": "1"}])
def test_without_a_cluster_a_process_is_alone(env: dict[str, str]) -> None:
    found = tf_config.read_tf_config(env)
    assert (found.is_main, found.worker_count, found.members, found.config()) == (True, 1, (), "")


WORKER_0 = {"type": "worker", "index": 0}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"TF_CONFIG": "{"}, "`TF_CONFIG` is not JSON"),
        ({"TF_CONFIG": "[]"}, "`TF_CONFIG` is not a JSON object"),
        ({"TF_CONFIG": '{"cluster": 7}'}, "`cluster` in `TF_CONFIG` is not an object"),
        (config(WORKER_0, worker="a:1"), "`worker` in `TF_CONFIG` is not a list of addresses"),
        (config(WORKER_0, worker=["a", "b:1"]), "`a` in `TF_CONFIG` is not an address `host:port`"),
        (config(WORKER_0, worker=["a:1", "a:1"]), "gives the address `a:1` to two tasks"),
        (config(WORKER_0, worker=TWO, chief=["c:1"]), "has tasks of type `chief`"),
        (config(WORKER_0, ps=["a:1"]), "`TF_CONFIG` does not name a worker"),
        (config(None, worker=TWO), "`TF_CONFIG` has no task type"),
        (config({"type": "ps", "index": 0}, worker=TWO), "but there are 0 tasks of type `ps`"),
        (config({"type": "worker", "index": 2}, worker=TWO), "index in `TF_CONFIG` is 2, but there are 2"),
        (
            config({"type": "worker", "index": "1"}, worker=TWO),
            "task index `1` in `TF_CONFIG` is not a whole",
        ),
        ({"RANK": "0", "WORLD_SIZE": "4"}, "`WORLD_SIZE` says that 4 processes were started but `TF_CONFIG`"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "`OMPI_COMM_WORLD_SIZE` says that 2 processes were started"),
        (config(WORKER_0, worker=["a:1"]) | {"WORLD_SIZE": "4"}, "but `TF_CONFIG` names 1 worker"),
    ],
)
def test_a_config_that_cannot_be_is_one_sentence(env: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        tf_config.read_tf_config(env)
    assert message in caught.value.message
    assert len(caught.value.message) <= 200


def members(count: int) -> list[tuple[str, str]]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    return [(f"worker {number}", address if number == 0 else f"host:{number}") for number in range(count)]


def together(count: int, act: Any) -> list[Any]:
    """What `act(meeting, place)` gives or raises in each of so many members."""
    there, found = members(count), [None] * count

    def member(place: int) -> None:
        rendezvous = Rendezvous(there, place, 20)
        try:
            found[place] = act(rendezvous, place)
            rendezvous.leave()
        except UserError as error:
            found[place] = error.message  # type: ignore[call-overload]
            rendezvous.close()

    threads = [threading.Thread(target=member, args=(place,), daemon=True) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(25)
    return found


def test_all_hear_what_all_say() -> None:
    assert together(3, lambda rendezvous, place: rendezvous.gather(10 * place)) == [[0, 10, 20]] * 3


def test_what_fails_for_one_fails_for_all() -> None:
    def act(rendezvous: Rendezvous, place: int) -> None:
        with rendezvous.together():
            if place == 1:
                raise UserError("the disk is full", "free space")

    assert together(3, act) == ["the disk is full"] * 3


def test_who_is_missing_is_named() -> None:
    there = members(3)
    found: list[str] = []

    def member(place: int) -> None:
        with pytest.raises(UserError) as caught:
            Rendezvous(there, place, 1.5)
        found.append(caught.value.message)

    threads = [threading.Thread(target=member, args=(place,), daemon=True) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == ["worker 2 (`host:2`) did not join within 1.5 s"] * 2


def test_a_stranger_does_not_disturb_the_meeting() -> None:
    there = members(2)

    def leader() -> None:
        host = Rendezvous(there, 0, 20)
        found.append(host.gather("a"))
        host.leave()

    found: list[Any] = []
    thread = threading.Thread(target=leader, daemon=True)
    thread.start()
    port = int(there[0][1].rpartition(":")[2])
    for words in (b"GET / HTTP/1.0\r\n\r\n", b'{"worldsize": 7}\n', b"[1]\n"):
        for _ in range(100):
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
                    stranger.sendall(words)
                    break
            except ConnectionRefusedError:
                threading.Event().wait(0.05)
    guest = Rendezvous(there, 1, 20)
    assert guest.gather("b") == ["a", "b"]
    guest.leave()
    thread.join(20)
    assert found == [["a", "b"]]


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_a_member_that_dies_ends_the_others() -> None:
    there = members(2)
    code = "import sys, time; sys.path.insert(0, sys.argv[3])\n"
    code += "from wstrain_tensorflow.launch.rendezvous import Rendezvous\n"
    code += "m = Rendezvous(eval(sys.argv[1]), int(sys.argv[2]), 20)\n"
    code += "time.sleep(0 if sys.argv[2] == '1' else 30)\n"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, repr(there), str(place), str(LIBRARY)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for place in (0, 1)
    ]
    try:
        said = ranks[0].communicate(timeout=20)[1]
        assert ranks[0].returncode == 1
        assert said == "error: worker 1 has gone, so this process stops\nhelp: its own log says why\n"
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
        for rank in ranks:
            if rank.stderr:
                rank.stderr.close()


def test_what_differs_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text("same")
        (tmp_path / name / "manifest.json").write_text("{}")
    first = consistency.fingerprint(tmp_path / "a", tmp_path / "a", {"epochs": 2})
    second = consistency.fingerprint(tmp_path / "b", tmp_path / "b", {"epochs": 2})
    assert consistency.describe_difference([first, second]) is None
    (tmp_path / "b" / "net.py").write_text("more")
    (tmp_path / "b" / "manifest.json").write_text("{ }")
    code = consistency.fingerprint(tmp_path / "b", tmp_path / "a", {"epochs": 2})
    data = consistency.fingerprint(tmp_path / "a", tmp_path / "b", {"epochs": 2})
    plan = consistency.fingerprint(tmp_path / "a", tmp_path / "a", {"epochs": 3})
    for folder in ("__pycache__", ".git", "inner"):
        (tmp_path / "a" / folder).mkdir()
        (tmp_path / "a" / folder / "part.py").write_text("more")
    inner = consistency.fingerprint(tmp_path / "a", tmp_path / "a", {"epochs": 2})
    assert inner["code"].keys() - first["code"].keys() == {"inner/part.py"}
    names = ["worker 0", "worker 1", "worker 2"]
    said = consistency.describe_difference([first, second, code], names)
    assert said == "worker 2 runs other code than worker 0: worker 0 has no `net.py`"
    assert (
        consistency.describe_difference([first, data])
        == "rank 1 reads other shards than rank 0: `manifest.json` differs"
    )
    assert (
        consistency.describe_difference([first, plan])
        == "rank 1 was started with `epochs` 3, but rank 0 with 2"
    )


@pytest.mark.smoke
@pytest.mark.parametrize(
    "module",
    [
        "wstrain_tensorflow.launch.start",
        "wstrain.tracking.step_recorder",
        pytest.param("wstrain.export", marks=pytest.mark.run),  # MLflow takes its time
    ],
)
def test_what_tensorflow_s_component_imports_needs_no_torch(module: str) -> None:
    if module == "wstrain.export":
        pytest.importorskip("mlflow")
    code = f"import sys; sys.modules['torch'] = None; import {module}; print('tensorflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(LIBRARY), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.stdout == "False\n", done.stderr
