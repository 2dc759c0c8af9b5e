"""Schedules and their firings in the database: what the management API, the page and the timer share."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from worldsize.azureml.cron import Trigger, due_times
from worldsize.serving.control.assets import ROW, Resource, get_resource, read_resource
from worldsize.serving.database import Database, now, read_record, read_time, use_each
from worldsize.serving.schedules.triggers import read_trigger

KIND = "schedules"
_LONGEST_NAME = 200  # characters of a job's


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A stored schedule. Times are aware, in UTC; ``properties`` are those of the REST body."""

    name: str
    properties: Mapping[str, Any]
    created: datetime
    modified: datetime

    @property
    def enabled(self) -> bool:
        """Whether it is switched on."""
        return self.properties.get("isEnabled") is not False

    @property
    def note(self) -> str:
        """Why a schedule never starts a job, for people; empty if it does."""
        kind = self.properties["action"]["actionType"]
        if kind.lower() == "createjob":
            return ""
        return f"Stored, but never fired: a local workspace does not run the action {kind}."

    def trigger(self) -> Trigger:
        """What it is due by."""
        return read_trigger(self.properties["trigger"], self.created)

    def next_times(self, count: int = 5, after: datetime | None = None) -> list[datetime]:
        """The next due times, in UTC: none for a schedule that is disabled or never fired."""
        if not self.enabled or self.note:
            return []
        moment = after or datetime.now(timezone.utc)
        return list(itertools.islice(due_times(self.trigger(), moment), count))


@dataclass(frozen=True, slots=True)
class Firing:
    """One due time that was acted on: the job that it started, or why it did not. Times are in UTC."""

    schedule: str
    due: str
    fired: str
    job: str | None
    error: str | None


def get_schedule(database: Database, name: str) -> ScheduleRecord | None:
    """The schedule of a name, or None."""
    resource = get_resource(database, KIND, name)
    return None if resource is None else read_record("schedule", resource, read_schedule)


# Python would have to parse all bodies for it, and SQLite lets other threads go on meanwhile.
_LIST = """
SELECT id FROM resources WHERE kind = :kind
    AND iif(json_valid(body), json_extract(body, '$.isEnabled'), 1) IS NOT :disabled ORDER BY id
"""


# Without the definition of its jobs, of which a list shows nothing and which may have megabytes.
_BRIEF = """
SELECT kind, name, secrets, created, modified,
    iif(json_valid(body), json_remove(body, '$.action.jobDefinition'), body) AS body
FROM resources WHERE id = ?
"""


def list_schedules(
    database: Database, *, enabled: bool | None = None, brief: bool = False
) -> Iterator[ScheduleRecord]:
    """The schedules that can be read, in the order of their creation, one in memory at a time.

    ``brief`` leaves out the definitions of their jobs.
    """
    values = {"kind": KIND, "disabled": 0 if enabled else -1}
    rows = database.rows(_LIST, values, _BRIEF if brief else ROW)
    schedules = use_each("schedule", use_each("schedule", rows, read_resource), read_schedule)
    return (schedule for schedule in schedules if enabled in (None, schedule.enabled))


def list_states(database: Database) -> dict[str, str]:
    """When each schedule was changed last, by its name: what is cheap to look at often."""
    query = "SELECT name, modified FROM resources WHERE kind = ?"
    return {row["name"]: row["modified"] for row in database.connection.execute(query, (KIND,))}


def list_firings(database: Database, schedule: str, limit: int = 100) -> list[Firing]:
    """What a schedule fired, the latest first."""
    query = "SELECT * FROM firings WHERE schedule = ? ORDER BY due DESC LIMIT ?"
    return [Firing(*row) for row in database.connection.execute(query, (schedule, limit))]


def unfinished_firings(database: Database, limit: int) -> list[Firing]:
    """The first firings that were claimed and have come to no end: they run, or a killed server left them."""
    query = "SELECT * FROM firings WHERE job IS NULL AND error IS NULL ORDER BY due LIMIT ?"
    return [Firing(*row) for row in database.connection.execute(query, (limit,))]


def claim(database: Database, schedule: str, due: datetime) -> Firing | None:
    """Record that a due time is acted on; None if it was before."""
    text = _write_time(due)
    query = "INSERT OR IGNORE INTO firings (schedule, due, fired) VALUES (?, ?, ?)"
    fired = now()
    if database.connection.execute(query, (schedule, text, fired)).rowcount == 0:
        return None
    return Firing(schedule, text, fired, None, None)


def find_firing(database: Database, schedule: str, due: datetime) -> Firing | None:
    """The firing of a due time, or None."""
    query = "SELECT * FROM firings WHERE schedule = ? AND due = ?"
    row: sqlite3.Row | None = database.connection.execute(query, (schedule, _write_time(due))).fetchone()
    return None if row is None else Firing(*row)


def finish(database: Database, firing: Firing, *, job: str | None = None, error: str | None = None) -> None:
    """Record the job that a firing started, or why it started none."""
    query = "UPDATE firings SET job = ?, error = ? WHERE schedule = ? AND due = ?"
    database.connection.execute(query, (job, error, firing.schedule, firing.due))


def read_schedule(resource: Resource) -> ScheduleRecord:
    """The schedule of a stored resource.

    Raises:
        ServiceError: Its trigger is not one.
        LookupError, TypeError, ValueError: It is not a schedule.
    """
    schedule = ScheduleRecord(
        resource.name, resource.body, read_time(resource.created), read_time(resource.modified)
    )
    if not schedule.note:
        schedule.trigger()
    return schedule


def _write_time(moment: datetime) -> str:
    """A due time as the database has it: seconds, and microseconds where there are any."""
    return moment.astimezone(timezone.utc).replace(tzinfo=None).isoformat() + "Z"


def job_name(firing: Firing) -> str:
    """The name of a firing's job, as Azure ML displays it: ``nightly-20210101T060000Z``."""
    stamp = firing.due.translate(str.maketrans("", "", "-:."))
    return f"{firing.schedule[: _LONGEST_NAME - len(stamp) - 1]}-{stamp}"
