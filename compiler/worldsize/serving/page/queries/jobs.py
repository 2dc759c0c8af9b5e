"""Jobs: a filtered list by pages, and where one job stands among the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from worldsize.serving.database import Database, use_each
from worldsize.serving.jobs.records import JobRecord, descendants, get_job, read_job_row

PAGE_SIZE = 25
MAX_TEXT = 200  # characters of a filter
MAX_CHOICES = 500

# Each condition holds where nothing is wanted. instr() and not LIKE: `%` and `_` are only characters.
_FOUND = """
FROM jobs WHERE parent IS NULL AND archived = 0
AND (:text = '' OR instr(lower(name || char(10) || display_name || char(10) || experiment
    || char(10) || COALESCE(schedule, '')), lower(:text)))
AND (:status = '' OR status = :status)
AND (:experiment = '' OR experiment = :experiment)
AND (:type = '' OR type = :type)
AND (:schedule = '' OR schedule = :schedule)
"""
_COUNT = f"SELECT COUNT(*) {_FOUND}"
# Without the body of each, of which a list shows nothing.
_COLUMNS = ", ".join(name for name in JobRecord.__slots__ if name != "properties")
_PAGE = f"SELECT {_COLUMNS}, '{{}}' AS properties {_FOUND} ORDER BY id DESC LIMIT :limit OFFSET :skip"
MOST_STEPS = 500  # whose states and metrics one page shows
_CHOICES = {
    "status": "SELECT DISTINCT status FROM jobs WHERE parent IS NULL ORDER BY status LIMIT ?",
    "experiment": "SELECT DISTINCT experiment FROM jobs WHERE parent IS NULL ORDER BY experiment LIMIT ?",
    "type": "SELECT DISTINCT type FROM jobs WHERE parent IS NULL ORDER BY type LIMIT ?",
}


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a list of jobs is narrowed to; empty values narrow nothing. Pages count from 1."""

    text: str = ""
    status: str = ""
    experiment: str = ""
    type: str = ""
    schedule: str = ""
    page: int = 1


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of a list, and the number of all jobs that fit its filter."""

    jobs: Sequence[JobRecord]
    total: int
    page: int

    @property
    def pages(self) -> int:
        """The number of pages, at least 1."""
        return max(1, -(-self.total // PAGE_SIZE))


def read_filter(query: Mapping[str, str]) -> JobFilter:
    """The filter of an address such as ``/?status=Failed&page=2``."""
    number = query.get("page", "1")
    texts = {name: query.get(name, "") for name in ("text", "status", "experiment", "type", "schedule")}
    return JobFilter(**texts, page=int(number) if number.isascii() and number.isdigit() else 1)


def find_jobs(database: Database, wanted: JobFilter) -> JobPage:
    """One page of the jobs that were submitted and are not archived, the newest first."""
    values = {name: getattr(wanted, name) for name in ("status", "experiment", "type", "schedule")}
    values["text"] = wanted.text.strip()[:MAX_TEXT]
    (total,) = database.connection.execute(_COUNT, values).fetchone()
    page = JobPage((), total, 1)
    number = min(max(1, wanted.page), page.pages)
    limits = {"limit": PAGE_SIZE, "skip": (number - 1) * PAGE_SIZE}
    rows = database.connection.execute(_PAGE, {**values, **limits})
    return JobPage([*use_each("job", rows, read_job_row)], total, number)


def steps_of_run(database: Database, root: str) -> dict[str, JobRecord]:
    """The jobs below a submitted one at any depth, by the names of their steps."""
    return {job.step: job for job in descendants(database, root, MOST_STEPS) if job.step is not None}


def jobs_below(database: Database, job: JobRecord) -> list[JobRecord]:
    """The jobs below a job at any depth."""
    below = descendants(database, job.root, MOST_STEPS)
    if job.parent is None:
        return below
    return [child for child in below if (child.step or "").startswith(f"{job.step}.")]


def get_ancestors(database: Database, job: JobRecord) -> list[JobRecord]:
    """The job that was submitted, and so on down to the parent of ``job``."""
    ancestors: list[JobRecord] = []
    seen = {job.name}
    while job.parent is not None and job.parent not in seen:
        parent = get_job(database, job.parent)
        if parent is None:
            break
        seen.add(parent.name)
        ancestors.append(parent)
        job = parent
    return ancestors[::-1]


def list_choices(database: Database) -> dict[str, list[str]]:
    """The states, experiments and types that jobs have, for the lists of the filter."""
    return {
        column: [row[0] for row in database.connection.execute(query, (MAX_CHOICES,))]
        for column, query in _CHOICES.items()
    }


def job_seconds(job: JobRecord, now: datetime | None = None) -> float | None:
    """How long a job has run, in seconds; None before it starts."""
    started, ended = parse_time(job.started), parse_time(job.ended)
    if ended is None and not job.has_ended:
        ended = now or datetime.now(timezone.utc)
    if started is None or ended is None:
        return None
    return max(0.0, (ended - started).total_seconds())


def parse_time(text: str | None) -> datetime | None:
    """A time as the service writes it."""
    try:
        time = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
