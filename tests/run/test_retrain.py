"""`worldsize retrain` with real processes: one training for each change, whatever ends a look."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from retrained_project import SPEC, Project, read_answer
from webhook import Server

pytestmark = [pytest.mark.run, pytest.mark.timeout(180)]


def test_one_training_for_each_change(tmp_path: Path) -> None:
    project = Project(tmp_path)
    first = project.look()
    assert (first["action"], first["reason"]) == ("promote", "the difference is 2.1 standard errors")
    assert first["model"] == "sales"
    began = time.monotonic()
    second = project.look()
    assert time.monotonic() - began < 5
    assert second["action"] == "none"
    assert second["reason"].endswith(": data, code and spec are unchanged")
    os.utime(tmp_path / "sales" / "week1.csv")  # touched, and not changed
    project.write_spec(f"{SPEC}retrain: {{stale_after: 2}}  # a comment\n")
    assert project.look()["action"] == "none"
    assert project.trained == 1
    project.add("week2.csv", 30)
    assert project.look()["action"] == "promote"
    project.write_spec(SPEC.replace("echo trained", "echo again") + "retrain: {}\n")
    assert project.look()["action"] == "promote"
    assert project.trained == 3
    assert not list((tmp_path / ".worldsize").glob("retrain/*/*/data"))  # copies are not kept


def test_too_few_rows_are_waited_for(tmp_path: Path) -> None:
    project = Project(tmp_path, "{data: {sales: {minimum_new_rows: 100}}}")
    assert project.look()["action"] == "promote"
    project.add("week1.csv", 40)  # 20 more than before
    project.add("week2.csv", 50)
    answer = project.look()
    assert (answer["action"], answer["reason"]) == (
        "none", "`sales` has 70 new rows, fewer than `minimum_new_rows: 100`",
    )  # fmt: skip
    project.add("week3.csv", 30)
    assert project.look()["action"] == "promote"


def test_a_window_by_partitions(tmp_path: Path) -> None:
    project = Project(tmp_path, "{data: {sales: {window: 14d, by: date}}}")
    (tmp_path / "sales" / "week1.csv").unlink()
    for day, rows in (("2026-01-05", 1000), ("2026-02-20", 2), ("2026-03-01", 3), ("2026-03-09", 500)):
        project.add(f"date={day}/part.csv", rows)
    assert project.look("--now", "2026-03-02T03:00Z")["action"] == "promote"
    (model,) = (tmp_path / ".worldsize" / "runs").glob("*/steps/train/outputs/model/MLmodel")
    assert len(model.read_text().splitlines()) == 2 + 2 + 3
    assert project.look("--now", "2026-03-02T04:00Z")["action"] == "none"
    answer = project.look("--now", "2027-03-02T03:00Z", status=1)
    assert (answer["action"], answer["reason"]) == (
        "stop", "`sales` has no files in its window, since 2027-02-16",
    )  # fmt: skip
    assert answer["notices"] == ["notice: `sales` has no files in its window, since 2027-02-16"]
    assert project.look("--now", "2027-03-02T03:00Z", status=1)["notices"] == []


def test_a_fault_of_the_code_is_not_tried_again(tmp_path: Path) -> None:
    project = Project(tmp_path)
    fault = tmp_path / "trained.fault"
    fault.touch()
    project.write_spec(SPEC.replace("FAULT", "exit 3") + "retrain: {}\n")
    answer = project.look(status=1)
    assert answer["action"] == "stop"
    assert "is not tried again until the data, the code or the spec changes" in answer["reason"]
    assert len(answer["notices"]) == 1
    again = project.look(status=1)
    assert (again["reason"], again["notices"]) == (answer["reason"], [])
    assert len(list((tmp_path / ".worldsize" / "runs").iterdir())) == 1
    fault.unlink()
    project.add("week2.csv", 30)
    assert project.look()["action"] == "promote"


def test_a_killed_process_is_tried_again_after_a_while(tmp_path: Path) -> None:
    project = Project(tmp_path)
    fault = tmp_path / "trained.fault"
    project.write_spec(SPEC.replace("FAULT", "kill -9 $$") + "retrain: {}\n")
    fault.touch()
    answer = project.look("--now", "2026-03-02T03:00Z")
    assert answer["action"] == "wait"
    assert "is continued in" in answer["reason"]
    fault.unlink()
    assert project.look("--now", "2026-03-02T03:01Z")["action"] == "wait"
    assert project.look("--now", "2026-03-02T03:10Z")["action"] == "promote"
    assert project.trained == 1


def test_two_looks_at_the_same_instant_train_once(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for week in range(3):
        project.add(f"week{week}.csv", 20 + week)
        looks = [project.start(PAUSE="0.5"), project.start(PAUSE="0.5")]
        actions = sorted(read_answer(look)["action"] for look in looks)
        assert actions[0] in ("none", "promote")
        assert actions[1] in ("promote", "wait")
        assert project.trained == week + 1


def test_a_queued_look_waits(tmp_path: Path) -> None:
    project = Project(tmp_path, "{overlap: queue}")
    first = project.start(PAUSE="3")
    _wait(lambda: project.trained == 1)
    project.add("week2.csv", 30)
    assert project.look()["action"] == "promote"
    assert read_answer(first)["action"] == "promote"
    assert project.trained == 2


def test_a_look_replaces_a_training_on_older_data(tmp_path: Path) -> None:
    project = Project(tmp_path)
    fault = tmp_path / "trained.fault"
    fault.touch()
    project.write_spec(SPEC.replace("FAULT", "sleep 100") + "retrain: {overlap: replace}\n")
    first = project.start()
    _wait(lambda: bool(list(tmp_path.glob(".worldsize/runs/*/steps/train/outputs/model/MLmodel"))))
    fault.unlink()
    project.add("week2.csv", 30)
    assert project.look()["action"] == "promote"
    first.communicate(timeout=60)
    assert first.returncode == 143
    assert project.trained == 1


def test_a_look_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    """Killed between training and promotion: nothing is trained again, whatever is new meanwhile."""
    project, moments = Project(tmp_path), random.Random(37)
    for week in range(3):
        project.add(f"week{week}.csv", 50 + week)
        look = project.start(PAUSE="1")
        _wait(lambda week=week: project.trained > week)
        time.sleep(moments.uniform(0.3, 3))
        look.send_signal(signal.SIGKILL)
        look.communicate(timeout=60)
        answer = project.look()
        assert answer["action"] == "promote", answer
        assert project.trained == week + 1
        assert project.look()["action"] == "none"


def test_a_notice_reaches_the_webhook_whose_address_no_step_has(tmp_path: Path) -> None:
    project, server = Project(tmp_path), Server()
    (tmp_path / "trained.fault").touch()
    tell = '{tell: {webhook: "${{secrets.HOOK}}"}}'
    project.write_spec(SPEC.replace("FAULT", "env > $TRAINED.env; exit 3") + f"retrain: {tell}\n")
    server.status = 500
    answer = project.look("--now", "2026-03-02T03:00Z", status=1, HOOK=server.address)
    assert answer["action"] == "stop"
    server.status = 200
    for minute in (5, 6):
        project.look("--now", f"2026-03-02T03:0{minute}Z", status=1, HOOK=server.address)
    server.shutdown()
    server.server_close()
    texts = [body["text"] for _, body, _ in server.taken]
    assert len(texts) == 2  # one was refused
    assert texts[1].startswith("worldsize retrain sales: run ")
    assert "HOOK" not in (tmp_path / "trained.env").read_text()
    records = [path for path in (tmp_path / ".worldsize").rglob("*") if path.is_file()]
    assert not any(b"s3cr3t" in path.read_bytes() for path in records)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
