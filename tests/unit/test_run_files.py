"""The run's folder, its event log, what is read back from the outputs."""

from __future__ import annotations

import errno
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest

from worldsize.running.launch.call import inherited_environment
from worldsize.running.launch.machine import detect_machine
from worldsize.running.launch.reserve import reserve_ports
from worldsize.running.model.results import Registration, StepResult, describe_ending
from worldsize.running.record import folder
from worldsize.running.record.details import read_metrics, read_registrations
from worldsize.running.record.folder import create_run_folder, scan_events

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=timezone.utc)


def test_ids_sort_by_start_and_are_unique_even_at_one_moment(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: create_run_folder(tmp_path, lambda: NOW).id, range(40)))
    assert len(set(made)) == 40
    assert min(made) == "20260102-030405-678"
    assert max(made) == "20260102-030405-717"
    assert (tmp_path / ".gitignore").read_text() == "*\n"


def test_the_event_log_is_one_document_a_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for name in ("a", "b"):
        with folder.EventLog(path, lambda: NOW) as log:
            log.write("step_started", step=name, odd="line\nbreak \u2028 é")
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert [json.loads(line)["step"] for line in lines] == ["a", "b"]
    assert scan_events(path)[0][1]["time"] == "2026-01-02T03:04:05.678+00:00"


def test_a_torn_last_event_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"event": "a"}\n{"event": "b", "x": "\xc3')
    assert scan_events(path)[0] == [{"event": "a"}]


def step(root: Path, name: str, **documents: object) -> StepResult:
    made = {}
    for output, document in documents.items():
        made[output] = root / name / output
        made[output].mkdir(parents=True)
        file = "registration.json" if output == "registration" else "metrics.json"
        (made[output] / file).write_text(document if isinstance(document, str) else json.dumps(document))
    return StepResult(name, "succeeded", 1.0, root / name, made)


def test_metrics_and_registrations_are_found_among_anything(tmp_path: Path) -> None:
    steps = [
        step(tmp_path, "one", metrics={"loss": 0.5, "name": "x", "good": True}),
        step(tmp_path, "two", metrics={"loss": 0.25, "accuracy": 1}),
        step(tmp_path, "three", metrics="[not json"),
        step(tmp_path, "four", metrics=[1, 2]),
        step(tmp_path, "five", registration={"registered": True, "name": "m", "version": "3"}),
        step(tmp_path, "six", registration={"registered": False, "name": "m", "reason": "too low"}),
    ]
    outputs = {result.name: result.outputs for result in steps}
    assert read_metrics(outputs) == {"loss": 0.5, "two.loss": 0.25, "accuracy": 1.0}
    assert read_registrations(outputs) == (
        Registration("m", "3"),
        Registration("m", None, "too low"),
    )


def test_reserved_ports_are_distinct_and_can_be_listened_on() -> None:
    import socket

    with reserve_ports(20) as held:
        assert len(set(held)) == 20
        assert not {29500, 6105} & set(held)
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", held[0]))
            server.listen()
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", 0))
            assert stranger.getsockname()[1] not in held


def test_another_launchers_variables_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "OMPI_COMM_WORLD_SIZE", "MLFLOW_RUN_ID", "AZUREML_RUN_ID", "TF_CONFIG"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PATH", "elsewhere")
    monkeypatch.setenv("MINE", "kept")
    found = inherited_environment(Path("here"))
    assert found["PATH"] == "here:elsewhere"
    assert found["MINE"] == "kept"
    assert not {"RANK", "OMPI_COMM_WORLD_SIZE", "MLFLOW_RUN_ID", "AZUREML_RUN_ID", "TF_CONFIG"} & set(found)


def test_slots_are_gpus_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, 3")
    assert detect_machine().gpus == ("1", "3")
    assert (detect_machine().slots, detect_machine().unit) == (2, "GPU")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert detect_machine().gpus == ()
    assert detect_machine().slots == detect_machine().cores >= 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (3, "rank 1 ended with exit status 3"),
        (-9, "rank 1 was killed by SIGKILL"),
        (-64, "rank 1 was killed by"),
    ],
)
def test_how_a_process_ended(status: int, words: str) -> None:
    assert describe_ending("rank 1", status).startswith(words)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_ends_the_event_log_and_not_the_run() -> None:
    with folder.EventLog(Path("/dev/full")) as log:
        assert log.fault is None
        log.write("run_started")
        log.write("run_ended")
    assert log.fault is not None
    assert log.fault.errno == errno.ENOSPC
