"""The local data that a spec reads now: which files, their content and rows, and a copy that stays."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from pathlib import Path, PurePosixPath

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml.model import Binding, Job
from worldsize.azureml.references import local_path
from worldsize.base import untrusted
from worldsize.documents.yaml import Scalar
from worldsize.retraining.policy import FILE_NAME, MODIFICATION_TIME, DataPolicy, Policy
from worldsize.running.reuse.digests import Digests, Tree, walk_tree
from wsshards.errors import UserError
from wssources.split_settings import WINDOW, Window
from wssources.time_column import count_times

MAX_COPIED = 1_000_000_000  # bytes of an input; of a larger one, only the list of files stays as it is
_DAY = timedelta(days=1)
_DATE = re.compile(r"(?<!\d)(\d{4})-?(\d{2})(?:-?(\d{2}))?(?!\d)")


class Source(Struct, frozen=True):
    """Data that the pipeline reads from this machine: an input of the pipeline, or of a step."""

    name: str  # of the input, or `step.input`
    path: Path
    node: Scalar  # of the path in the spec
    readers: tuple[str, ...] = ()  # steps that can leave out rows by a column
    unable: tuple[str, ...] = ()  # other steps that read it


class ReadFile(Struct, frozen=True):
    """A file that a training reads."""

    sha256: str
    size: int
    modified: float  # seconds since 1970
    rows: int | None = None  # where they are counted


class Reading(Struct, frozen=True):
    """What is read of one source: files by their places in it, and the digest of all."""

    digest: str
    files: Mapping[str, ReadFile] = field(default_factory=dict)
    fault: str | None = None  # a sentence, if there is nothing to read
    window: str | None = None  # the input `window` of the steps that read it, where a column has the times
    rows: tuple[int, int, int] | None = None  # then the rows before the window, in it and after it

    @property
    def fingerprint(self) -> str:
        """A digest of the rows that are read: it changes as well when a row enters or leaves the window."""
        return self.digest if self.rows is None else "-".join(map(str, (self.digest, *self.rows)))


def list_sources(job: Job, folder: Path) -> list[Source]:
    """The local data of the job of a spec in a folder, as its pipeline and its steps name it."""
    found = [(name, local_path(text, folder), node) for name, _, text, node in job.list_data()]
    return [Source(name, path, node, *_list_readers(job, name)) for name, path, node in found if path]


def _list_readers(job: Job, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The steps that read an input of the pipeline: those with an input ``window``, and the others."""
    steps = [
        step
        for step in job.steps.values()
        for argument in step.inputs.values()
        if isinstance(argument.value, Binding)
        and (argument.value.expression.scope, argument.value.expression.port) == ("parent.inputs", name)
    ]
    able = tuple(
        step.name for step in steps if step.component is not None and WINDOW in step.component.inputs
    )
    return able, tuple(step.name for step in steps if step.name not in able)


def read_source(source: Source, policy: Policy, now: float, digests: Digests) -> Reading:
    """Read the files of a source that its policy lets through at a time.

    Raises:
        OSError: A file cannot be read.
    """
    modified = list_modified(source.path)
    rule = policy.data.get(source.name, DataPolicy())
    window = _find_window(modified, rule, now)
    places, fault = list(modified), None
    if window is None:
        places, fault = select_files(source.name, source.path.name, modified, rule, now)
    if fault is not None:
        return Reading("", fault=fault)
    tree = digests.files(
        {place: source.path / place if place else source.path for place in places}, source.path
    )
    files = {
        place: ReadFile(leaf.sha256, leaf.size, round(modified[place], 3))
        for place, leaf in tree.files.items()
    }
    reading = Reading(Tree("folder", tree.files).digest(), files)
    return reading if window is None else _read_window(source, rule, reading, window)


def _read_window(source: Source, rule: DataPolicy, reading: Reading, window: Window) -> Reading:
    """The reading with the rows of a window by a column of tables, which the steps that read it leave out."""
    no_folder = f"{rule.place}: `{source.name}` has no folder `{window.column}=2026-03-02` or the like, and"
    if source.unable or not source.readers:
        reader = f"step `{source.unable[0]}`, which reads it, cannot" if source.unable else "no step can"
        return Reading("", fault=f"{no_folder} {reader} leave out rows by a column")
    try:
        rows = count_times((source.path / place for place in reading.files), window)
    except UserError as error:
        return Reading("", fault=f"{no_folder} {error.message}")
    start, end = (f"{_to_time(moment):%Y-%m-%dT%H:%M:%SZ}" for moment in (window.start, window.end))
    if not rows[1]:
        return Reading("", fault=f"`{source.name}` has no rows in its window, since {start[:10]}")
    return replace(reading, window=f"{start}/{end} {window.column}", rows=rows)


def list_modified(path: Path) -> dict[str, float]:
    """When each file that counts was written, by its place: hidden ones never count.

    Raises:
        OSError: The folder cannot be read.
    """
    return {
        entry.place: entry.status.st_mtime
        for entry in walk_tree(path)
        if entry.kind == "file" and entry.status is not None and not is_hidden(entry.place)
    }


def select_files(
    name: str, folder: str, modified: Mapping[str, float], rule: DataPolicy, now: float
) -> tuple[list[str], str | None]:
    """The files of an input that its policy lets through at a time, or a sentence on why there are none."""
    if not modified:
        return [], f"`{name}` has no files in `{folder}`"
    if rule.window is None or rule.by is None:
        return list(modified), None
    periods = {place: _find_period(place, written, rule.by) for place, written in modified.items()}
    if not any(periods.values()):
        return [], _explain_undated(name, rule)
    low, high = _to_time(now - rule.window), _to_time(now)
    places = [place for place, period in periods.items() if period and period[1] > low and period[0] <= high]
    return places, None if places else f"`{name}` has no files in its window, since {low:%Y-%m-%d}"


def is_hidden(place: str) -> bool:
    """Whether a file, or a folder that it is in, has a name that begins with a dot or an underscore."""
    return any(part[0] in "._" for part in PurePosixPath(place).parts)


def _find_period(place: str, modified: float, by: str) -> tuple[datetime, datetime] | None:
    """When the rows of a file are from; None if that is not known."""
    if by == MODIFICATION_TIME:
        return _to_time(modified), _to_time(modified) + timedelta(microseconds=1)
    parts = PurePosixPath(place).parts
    text = parts[-1] if by == FILE_NAME and parts else ""
    for part in parts[:-1] if by != FILE_NAME else ():
        key, equals, value = part.partition("=")
        text = value if equals and key == by else text
    found = _DATE.search(text)
    if found is None:
        return None
    try:
        first = date(int(found[1]), int(found[2]), int(found[3] or 1))
    except ValueError:
        return None
    start = datetime.combine(first, datetime.min.time(), timezone.utc)
    next_month = (start.replace(day=28) + 4 * _DAY).replace(day=1)
    return start, start + _DAY if found[3] else next_month


def _find_window(modified: Mapping[str, float], rule: DataPolicy, now: float) -> Window | None:
    """The window by a column of the rows, where neither folders nor names of files have times."""
    if rule.window is None or rule.by is None or rule.by == FILE_NAME or not modified:
        return None
    if any(_find_period(place, written, rule.by) for place, written in modified.items()):
        return None
    return Window(rule.by, float(int(now - rule.window)), float(int(now)))


def _explain_undated(name: str, rule: DataPolicy) -> str:
    if rule.by == FILE_NAME:
        return f"{rule.place}: no file of `{name}` has a date such as `2026-03-02` in its name"
    no_folder = f"{rule.place}: `{name}` has no folder `{rule.by}=2026-03-02` or the like"
    return f"{no_folder}, and columns are not read for a window in a workspace"


def _to_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


_COUNTED = {".csv": 1, ".tsv": 1, ".jsonl": 0, ".ndjson": 0}  # lines of the heading


def count_rows(source: Source, reading: Reading, before: Reading | None) -> Reading:
    """The reading with the rows of each file whose format tells them; unchanged files are not read again."""
    known = {file.sha256: file.rows for file in (before.files if before else {}).values()}
    files = {}
    for place, file in reading.files.items():
        path = source.path / place if place else source.path
        rows = known[file.sha256] if file.sha256 in known else count_file(path)
        files[place] = replace(file, rows=rows)
    return replace(reading, files=files)


def count_file(path: Path) -> int | None:
    """The rows of a file; line breaks inside quotes end no row."""
    heading = _COUNTED.get(path.suffix.lower())
    if heading is None:
        return None
    rows, quotes = 0, 0
    with untrusted.open_file(path) as file:
        for line in file:
            quotes += line.count(b'"') if heading else 0
            rows += bool(line.strip()) and quotes % 2 == 0
    return max(0, rows - heading)


def count_new_rows(reading: Reading, before: Reading | None) -> int | None:
    """The rows that files have more than at an earlier reading; None if they are not counted.

    Of a window by a column, those up to its end: a row that leaves the window is none.
    """
    if reading.rows is not None:
        earlier = before.rows[:2] if before is not None and before.rows is not None else ()
        return max(0, sum(reading.rows[:2]) - sum(earlier))
    if any(file.rows is None for file in reading.files.values()):
        return None
    files = before.files if before is not None else {}
    added = 0
    for place, file in reading.files.items():
        old = files.get(place)
        added += max(0, (file.rows or 0) - (old.rows or 0 if old is not None else 0))
    return added


def keep_files(source: Source, reading: Reading, target: Path) -> None:
    """Put what is read under a path where nothing changes it: a copy, or of much data links.

    Raises:
        OSError: A file cannot be read or written.
    """
    copied = sum(file.size for file in reading.files.values()) <= MAX_COPIED
    for place in reading.files:
        path = target / place if place else target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        original = (source.path / place if place else source.path).resolve()
        if copied:
            shutil.copy2(original, path)
        else:
            path.symlink_to(original)


def replace_paths(text: str, paths: Mapping[Source, Path], folder: Path) -> str:
    """The text of a spec that reads its data from other paths; ``folder`` is the spec's."""
    edits = {
        (source.node.start, source.node.end): json.dumps(os.path.relpath(path, folder))
        for source, path in paths.items()
    }
    for (start, end), written in sorted(edits.items(), reverse=True):
        text = text[:start] + written + text[end:]
    return text
