"""Azure's statuses, times and logs in the words of a run on this machine."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from worldsize.remote.jobs import RemoteStep
from worldsize.remote.logs import error_of, name_processes, parse_time, run_state, seconds_of, step_state
from worldsize.remote.watch import _advance
from worldsize.running.model.results import Status


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("NotStarted", "waiting"),
        ("Queued", "preparing"),
        ("Running", "running"),
        ("Finalizing", "running"),
        ("Completed", "succeeded"),
        ("Failed", "failed"),
        ("Canceled", "stopped"),
        ("NewWord", "waiting"),
        (None, "waiting"),
    ],
)
def test_each_status_has_a_state(status: str | None, expected: str) -> None:
    assert step_state({"status": status}) == expected


def test_a_reused_step_says_so() -> None:
    assert step_state({"status": "Completed", "properties": {"azureml.isreused": "true"}}) == "reused"


def test_a_job_is_queued_running_or_ended() -> None:
    assert [run_state(word) for word in ("Queued", "CancelRequested", "Completed", "Canceled")] == [
        "queued", "running", "succeeded", "canceled"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "microsecond"),
    [
        ("2026-01-02T03:04:05.1234567+00:00", 123456),
        ("2026-01-02T03:04:05.5Z", 500000),
        ("2026-01-02T03:04:05Z", 0),
    ],
)
def test_times_of_the_service_are_read(text: str, microsecond: int) -> None:
    assert parse_time(text) == datetime(2026, 1, 2, 3, 4, 5, microsecond, tzinfo=timezone.utc)


@pytest.mark.parametrize("text", [None, "", "soon", 3, "2026-13-45T99:99:99Z"])
def test_what_is_no_time_is_none(text: object) -> None:
    assert parse_time(text) is None
    assert seconds_of({"startTimeUtc": text}) == 0.0


def test_seconds_end_with_the_run() -> None:
    run = {"startTimeUtc": "2026-01-02T03:04:05Z", "endTimeUtc": "2026-01-02T03:05:05.5Z"}
    assert seconds_of(run) == 60.5


@pytest.mark.parametrize(
    "error",
    [{"error": {"code": "UserError", "message": "rank 1 ended"}}, {"message": "rank 1 ended"}],
)
def test_the_message_of_an_error_is_found(error: object) -> None:
    assert error_of({"error": error}) == "rank 1 ended"
    assert error_of({"error": None}) is None


def test_a_step_tells_its_needs_parameters_and_processes() -> None:
    node = {
        "resources": {"instance_count": 2},
        "distribution": {"distribution_type": "PyTorch", "process_count_per_instance": 4},
        "inputs": {
            "shards": {"job_input_type": "literal", "value": "${{parent.jobs.shard.outputs.shards}}"},
            "epochs": {"job_input_type": "literal", "value": "3"},
            "rate": {"job_input_type": "literal", "value": "${{parent.inputs.rate}}"},
        },
    }
    given = {"${{parent.inputs.rate}}": "0.5"}
    record = RemoteStep("train", node, {"status": "Running"}, given).record()
    assert record.needs == ("shard",)
    assert record.parameters == {"epochs": "3", "rate": "0.5"}
    assert record.processes == tuple(f"rank-{rank}" for rank in range(8))


def test_tensorflow_has_workers_and_parameter_servers() -> None:
    node = {"distribution": {"distributionType": "TensorFlow", "workerCount": 3, "parameterServerCount": 1}}
    assert RemoteStep("train", node).processes == 4


def test_logs_are_named_by_rank() -> None:
    files = {
        "user_logs/std_log_process_01.txt": "a",
        "user_logs/std_log_process_10.txt": "b",
        "system_logs/lifecycler/execution-wrapper.log": "c",
    }
    assert list(name_processes(files)) == ["rank-1", "rank-10"]
    assert list(name_processes({"user_logs/std_log.txt": "a"})) == ["std_log"]
    assert list(name_processes({"system_logs/cs.log": "a"})) == ["cs"]  # better than nothing


def test_a_step_advances_once_and_keeps_its_duration() -> None:
    status = Status("train")
    run = {"status": "Running", "startTimeUtc": "2026-01-02T03:04:05Z"}
    assert _advance(status, RemoteStep("train", {}, run), now=1e9)
    assert not _advance(status, RemoteStep("train", {}, run), now=1e9)
    ended = {**run, "status": "Completed", "endTimeUtc": "2026-01-02T03:04:15Z"}
    assert _advance(status, RemoteStep("train", {}, ended), now=1e9)
    assert (status.state, status.seconds) == ("succeeded", 10.0)
