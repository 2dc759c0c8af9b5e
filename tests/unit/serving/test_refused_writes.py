"""What becomes of records and jobs where the disk refuses to write, or a server is killed while it does."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sqlite3

import pytest

from worldsize.running.launch.machine import Machine
from worldsize.serving.errors import explain_refused
from worldsize.serving.jobs import process, records
from worldsize.serving.jobs.process import hold_job
from worldsize.serving.jobs.queue import Queue
from worldsize.serving.workspace import Workspace

JOB = records.JobRecord(
    name="one", type="Command", display_name="one", experiment="e", status="Queued", properties={},
    root="one", created="2026-01-02T03:04:05Z",
)  # fmt: skip


def test_a_transaction_that_the_disk_refuses_leaves_none_open(workspace: Workspace) -> None:
    database, limits = workspace.database, resource.getrlimit(resource.RLIMIT_FSIZE)

    def write() -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO containers VALUES ('a', 'b', '{}', 0, '', '')")
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # no file grows when it ends

    try:
        with pytest.raises(sqlite3.OperationalError) as caught:
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert explain_refused(caught.value) is not None
    assert not database.connection.in_transaction
    with database.transaction() as connection:
        connection.execute("INSERT INTO containers VALUES ('later', 'b', '{}', 0, '', '')")
    database.close()  # another connection sees what was committed only
    assert [row["kind"] for row in database.connection.execute("SELECT kind FROM containers")] == ["later"]


def test_a_job_waits_until_the_disk_takes_what_it_needs(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.home.jobs / "one").mkdir()
    (workspace.home.jobs / "one" / "pipeline.yml").write_text("type: command\ncommand: echo\n")
    records.insert(workspace.database, JOB)
    queue = Queue(workspace, Machine(2))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full, contextlib.suppress(OSError):  # it is looked at again later
        full.setattr(process, "write_whole", refuse)
        asyncio.run(queue.tick())
    job = records.get_job(workspace.database, "one")
    assert job is not None
    assert job.status == "Queued"
    monkeypatch.setattr("worldsize.serving.jobs.queue.start_process", lambda *_: None)
    asyncio.run(queue.tick())
    assert list(queue.active) == ["one"]


def test_nothing_is_left_of_submissions_that_were_killed(workspace: Workspace) -> None:
    records.insert(workspace.database, JOB)
    (workspace.home.jobs / "one").mkdir()
    jobs = workspace.home.jobs
    for name in (".tmp1", "lost", "runs"):
        (jobs / name).mkdir()
        (jobs / name / "pipeline.yml").touch()
    with hold_job(jobs / "runs"):  # a process still uses it
        Queue(workspace, Machine(2)).adopt()
    assert sorted(each.name for each in jobs.iterdir()) == ["one", "runs"]
