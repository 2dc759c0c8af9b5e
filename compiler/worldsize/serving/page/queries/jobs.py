"""Jobs: a filtered list by pages, and where one job stands among the others, and what MLflow knows of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from worldsize.running.reuse.store import find_original
from worldsize.serving.database import Database, use_each
from worldsize.serving.jobs.records import JobRecord, child_name, descendants, get_job, read_job_row
from worldsize.serving.page.queries.files import run_folder
from worldsize.serving.workspace import Workspace
from worldsize.showing.curves import Curve, prepare_curves
from worldsize.tracking import runs

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
_COLUMNS = ", ".join(name for name in JobRecord.__struct_fields__ if name != "properties")
_PAGE = f"SELECT {_COLUMNS}, '{{}}' AS properties {_FOUND} ORDER BY id DESC LIMIT :limit OFFSET :skip"
MOST_STEPS = 500  # whose states and metrics one page shows
_CHOICES = "SELECT DISTINCT {0} FROM jobs WHERE parent IS NULL ORDER BY {0} LIMIT ?"


class JobFilter(Struct, frozen=True):
    """What a list of jobs is narrowed to; empty values narrow nothing. Pages count from 1."""

    text: str = ""
    status: str = ""
    experiment: str = ""
    type: str = ""
    schedule: str = ""
    page: int = 1


class JobPage(Struct, frozen=True):
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
    columns = ("status", "experiment", "type")
    rows = {name: database.connection.execute(_CHOICES.format(name), (MAX_CHOICES,)) for name in columns}
    return {name: [row[0] for row in selected] for name, selected in rows.items()}


MAX_POINTS, MOST_DRAWN = 1000, 20_000  # points of one curve that is drawn, and of one chart
_INTERNAL = ("mlflow.", "worldsize.")  # tags of the tools themselves, which the page says in its own words


class Tracked(Struct, frozen=True):
    """What MLflow knows of one run; metrics by their last values."""

    params: Mapping[str, str] = {}
    metrics: Mapping[str, float] = {}
    tags: Mapping[str, str] = {}


def read_run(home: Path, run: str) -> Tracked:
    """The parameters, last metrics and tags of a run; empty if MLflow does not know it."""
    tags = {
        name: value for name, value in runs.read_tags(home, run).items() if not name.startswith(_INTERNAL)
    }
    return Tracked(runs.read_params(home, run), runs.read_latest_metrics(home, run), tags)


def read_runs(home: Path, ids: Mapping[str, str]) -> dict[str, Tracked]:
    """What MLflow knows of several jobs, by their names; ``ids`` has the run of each."""
    return {job: read_run(home, run) for job, run in ids.items()}


def read_curves(home: Path, shown: Mapping[str, str], ids: Mapping[str, str]) -> dict[str, dict[str, Curve]]:
    """The curves of all metrics of some jobs: by metric, and by the texts to show of the jobs.

    ``shown`` has the text of each job by its name, ``ids`` its run in MLflow. Values are finite and more than
    one, thinned to ``MAX_POINTS``.
    """
    most = max(50, MOST_DRAWN // max(1, len(shown)))
    curves: dict[str, dict[str, Curve]] = {}
    for job, text in shown.items():
        logged = runs.read_curves(home, ids[job])
        for metric, points in prepare_curves(logged, min(most, MAX_POINTS)).items():
            curves.setdefault(metric, {})[text] = points
    return curves


def tracked_ids(workspace: Workspace, jobs: Iterable[JobRecord]) -> dict[str, str]:
    """The id of the run in MLflow that shows each job, by the name of the job."""
    return {job.name: _tracked_id(workspace, job) for job in jobs}


def _tracked_id(workspace: Workspace, job: JobRecord) -> str:
    folder = run_folder(workspace.home, job)
    if folder is None or job.step is None or job.parent is None:
        return job.name
    original = find_original(folder.root, job.step)
    name = child_name(original.run, original.step)
    is_child = get_job(workspace.database, name) is not None
    return name if is_child else original.run  # of a job that is not a pipeline
