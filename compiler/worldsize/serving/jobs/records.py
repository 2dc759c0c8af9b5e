"""Jobs in the database: one row for each job, and one for each step of a pipeline and trial of a sweep."""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import Any

import msgspec

from worldsize.serving.database import Database, now, read_row, read_time, use_each

ENDED = ("Completed", "Failed", "Canceled", "NotResponding")
WAITING = ("NotStarted", "Queued")
NAMESPACE = uuid.UUID("6f4de9b4-2b43-4d6c-9d9a-1f6c4c3a3c55")  # of the names of children


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table. Times are ISO 8601 in UTC; ``properties`` are those of the body, as submitted."""

    name: str
    type: str  # Command, Pipeline or Sweep
    display_name: str
    experiment: str
    status: str  # in the service's words
    properties: Mapping[str, Any]
    root: str
    created: str
    parent: str | None = None
    step: str | None = None  # the step of the root's run that a child is
    archived: bool = False
    started: str | None = None
    ended: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    pid: int | None = None
    schedule: str | None = None
    id: int | None = None  # increases with the time of creation; given by the database

    @property
    def has_ended(self) -> bool:
        """Whether the status is final."""
        return self.status in ENDED

    def seconds(self, time: datetime | None = None) -> float | None:
        """How long it has run, in seconds; None before it starts, or where that is not known."""
        started, ended = parse_time(self.started), parse_time(self.ended)
        if ended is None and not self.has_ended:
            ended = time or datetime.now(timezone.utc)
        return None if started is None or ended is None else max(0.0, (ended - started).total_seconds())


read_job_row = partial(read_row, JobRecord)


def parse_time(text: str | None) -> datetime | None:
    """A time as the service writes it; None for another text."""
    try:
        return read_time(text or "")
    except ValueError:
        return None


def child_name(root: str, step: str) -> str:
    """The name of the job that a step of another one is; the same each time."""
    return str(uuid.uuid5(NAMESPACE, f"{root}/{step}"))


def get_job(database: Database, name: str) -> JobRecord | None:
    """The job of a name, a child too, or None."""
    return database.read_one("job", "SELECT * FROM jobs WHERE name = ?", (name,), read_job_row)


_LIST = """
SELECT * FROM jobs
WHERE parent IS NULL
    AND archived IN (SELECT value FROM json_each(:archived))
    AND (:types = '[]' OR type IN (SELECT value FROM json_each(:types)))
    AND (:schedule IS NULL OR iif(:schedule = '', schedule IS NOT NULL, schedule = :schedule))
    AND (:experiment IS NULL OR experiment = :experiment)
    AND (:after IS NULL OR id < :after)
    AND (:tag IS NULL OR EXISTS (
        SELECT 1 FROM json_each(iif(json_valid(properties), properties, '{}'), '$.tags') AS t
        WHERE t.key = :tag AND (:tag_value IS NULL OR t.value = :tag_value)))
ORDER BY id DESC LIMIT :limit
"""


def select_jobs(
    database: Database,
    *,
    types: Sequence[str] = (),
    tag: str | None = None,
    archived: Sequence[bool] = (False,),
    schedule: str | None = None,
    experiment: str | None = None,
    limit: int = 100,
    after: int | None = None,
) -> Iterable[sqlite3.Row]:
    """The rows of jobs, the newest first: those of the top level.

    Args:
        database: The workspace's database.
        types: The types of jobs that count; all by default.
        tag: ``key`` or ``key=value`` of a tag that a job must have.
        archived: Which values of ``archived`` are listed.
        schedule: The schedule that must have started a job; any schedule for an empty text.
        experiment: The experiment that a job must belong to.
        limit: The most that are returned.
        after: The ``id`` of the last job of the page before.
    """
    key, equals, value = (tag or "").partition("=")
    parameters = {
        "archived": json.dumps([*map(int, archived)]),
        "types": json.dumps([*types]),
        "schedule": schedule,
        "experiment": experiment,
        "after": after,
        "tag": None if tag is None else key,
        "tag_value": value if equals else None,
        "limit": limit,
    }
    return database.connection.execute(_LIST, parameters)


def list_in_state(database: Database, states: Iterable[str]) -> list[JobRecord]:
    """The jobs of the top level in one of some states, the oldest first."""
    query = (
        "SELECT * FROM jobs WHERE status IN (SELECT value FROM json_each(?)) AND parent IS NULL ORDER BY id"
    )
    return _read_each(database, query, json.dumps([*states]))


def list_names(database: Database, status: str, limit: int) -> list[str]:
    """The names of the oldest jobs of the top level in a state."""
    query = "SELECT name FROM jobs WHERE status = ? AND parent IS NULL ORDER BY id LIMIT ?"
    return [row["name"] for row in database.connection.execute(query, (status, limit))]


def _read_each(database: Database, query: str, *values: object) -> list[JobRecord]:
    return [*use_each("job", database.connection.execute(query, values), read_job_row)]


def children(database: Database, name: str, limit: int = -1) -> list[JobRecord]:
    """The children of a job, in the order of their creation: the first ``limit``."""
    return _read_each(database, "SELECT * FROM jobs WHERE parent = ? ORDER BY id LIMIT ?", name, limit)


def descendants(database: Database, root: str, limit: int = -1) -> list[JobRecord]:
    """The jobs below a job of the top level, in the order of their creation: the first ``limit``."""
    query = "SELECT * FROM jobs WHERE root = ? AND name <> ? ORDER BY id LIMIT ?"
    return _read_each(database, query, root, root, limit)


def insert(database: Database, *jobs: JobRecord) -> None:
    """Store jobs; one that is there already stays as it is."""
    with database.transaction():
        for record in jobs:
            database.insert("jobs", msgspec.structs.asdict(record), "ON CONFLICT DO NOTHING")


_SET_STATUS = """
UPDATE jobs SET
    status = :status,
    error_code = coalesce(:code, error_code),
    error_message = coalesce(:message, error_message),
    started = CASE WHEN :starts THEN coalesce(started, :time) ELSE started END,
    ended = CASE WHEN :ends THEN :time ELSE ended END
WHERE name = :name AND status NOT IN (SELECT value FROM json_each(:kept))
"""


def set_status(
    database: Database,
    name: str,
    status: str,
    *,
    error: tuple[str, str] | None = None,
    unless: Iterable[str] = ENDED,
) -> bool:
    """Set the status of a job, with the times that follow from it; whether it was set.

    Args:
        database: The workspace's database.
        name: The job.
        status: The new status.
        error: Code and message of a failure.
        unless: States that stay: by default a job that has ended does not change again.
    """
    code, message = error or (None, None)
    parameters = {
        "name": name,
        "status": status,
        "code": code,
        "message": message,
        "starts": status in ("Running", "Completed"),
        "ends": status in ENDED,
        "time": now(),
        "kept": json.dumps([*unless]),
    }
    return database.connection.execute(_SET_STATUS, parameters).rowcount > 0


def claim(database: Database, name: str, *, before: Iterable[str], after: str) -> bool:
    """Change the status from one of ``before`` to ``after`` in one step; False if it was another."""
    query = "UPDATE jobs SET status = ? WHERE name = ? AND status IN (SELECT value FROM json_each(?))"
    return database.connection.execute(query, (after, name, json.dumps([*before]))).rowcount > 0


_UPDATE = """
UPDATE jobs SET
    properties = coalesce(:properties, properties),
    archived = coalesce(:archived, archived),
    display_name = coalesce(:display_name, display_name),
    error_code = coalesce(:code, error_code),
    error_message = coalesce(:message, error_message)
WHERE name = :name
"""


def update_job(
    database: Database,
    name: str,
    *,
    properties: Mapping[str, Any] | None = None,
    archived: bool | None = None,
    display_name: str | None = None,
    error: tuple[str, str] | None = None,
) -> None:
    """Store other values of what can be changed of a job; None keeps a value."""
    code, message = error or (None, None)
    parameters = {
        "name": name,
        "properties": None if properties is None else json.dumps(properties),
        "archived": archived,
        "display_name": display_name,
        "code": code,
        "message": message,
    }
    database.connection.execute(_UPDATE, parameters)


def enter_process(database: Database, name: str, pid: int | None = None) -> bool:
    """Enter the process that runs a job into its row; False if another did, or the job was canceled."""
    done = database.connection.execute(
        "UPDATE jobs SET pid = ? WHERE name = ? AND status = 'Preparing' AND pid IS NULL",
        (pid or os.getpid(), name),
    )
    return done.rowcount > 0


def child_record(
    root: JobRecord, step: str, *, parent: str, type_: str, title: str, properties: dict[str, Any]
) -> JobRecord:
    """The row of a job below another one, which has not started."""
    return JobRecord(
        name=child_name(root.name, step),
        type=type_,
        display_name=title,
        experiment=root.experiment,
        status="NotStarted",
        properties={"jobType": type_, **properties},
        root=root.root,
        parent=parent,
        step=step,
        created=now(),
        schedule=root.schedule,
    )
