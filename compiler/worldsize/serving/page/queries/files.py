"""The files and logs of jobs and assets: listed, previewed and opened, only those in folders of data."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base import untrusted
from worldsize.documents.diagnostics.snippet import flatten
from worldsize.running.launch.logs import Decoder, by_number
from worldsize.running.model.folder import RunFolder
from worldsize.running.record.history import RECORD, RunRecord
from worldsize.running.record.json_files import is_file_name, read_json
from worldsize.serving.home import Home
from worldsize.serving.jobs.job_files import artifacts_folder
from worldsize.serving.jobs.records import JobRecord

MAX_ENTRIES = 500  # of one folder
PREVIEW_BYTES = 64 << 10
IMAGE_BYTES = 8 << 20
ROWS = 20
IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_TABLES = {".csv": ",", ".tsv": "\t"}


class Entry(Struct, frozen=True):
    """A file or a folder; ``path`` is relative to the folder that is browsed."""

    name: str  # as it is shown: a byte that is not UTF-8 is a mark
    path: str
    folder: bool
    size: int  # bytes


class Preview(Struct, frozen=True):
    """What is shown of a file. ``kind`` is ``text``, ``table``, ``image``, or ``none`` and why."""

    kind: str
    text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    cut: bool = False  # whether there is more


def data_folders(home: Home) -> tuple[Path, ...]:
    """Whose files may be shown: runs, blobs, MLflow's artifacts and kept outputs; no secret or database."""
    return (home.runs, home.blobs, home.artifacts, home.root / "cache")


def resolve_inside(home: Home, base: Path, path: str) -> Path | None:
    """The real path of a file below ``base``; None if it does not exist or lies elsewhere.

    The path is relative to it, as a browser sends it. Links are followed to the home's folders of data only.
    """
    parts = path.split("/")
    if "\0" in path or path.startswith("/") or ".." in parts:
        return None
    try:
        resolved = (base / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    allowed = any(resolved.is_relative_to(folder.resolve()) for folder in data_folders(home))
    return resolved if allowed else None


def list_folder(home: Home, base: Path, path: str = "") -> list[Entry]:
    """The entries of a folder below ``base``, folders first; the first ``MAX_ENTRIES``."""
    folder = resolve_inside(home, base, path)
    if folder is None or not folder.is_dir():
        return []
    entries = list(_scan(home, base, folder, path))
    return sorted(entries, key=lambda entry: (not entry.folder, entry.name.lower()))


def _scan(home: Home, base: Path, folder: Path, path: str) -> Iterator[Entry]:
    with os.scandir(folder) as entries:
        for index, entry in enumerate(entries):
            if index >= MAX_ENTRIES:
                return
            inner = f"{path}/{entry.name}" if path else entry.name
            real = resolve_inside(home, base, inner)
            if real is None:
                continue
            status = real.stat()
            yield Entry(flatten(entry.name), inner, stat.S_ISDIR(status.st_mode), status.st_size)


def preview_file(path: Path) -> Preview:
    """The beginning of a file: rows of a table, text, formatted JSON, or that it is an image."""
    try:
        if not path.is_file():
            return Preview("none", "This is not a file.")
        return _preview(path, path.suffix.lower(), path.stat().st_size)
    except OSError as error:
        return Preview("none", f"The file cannot be read: {error.strerror}.")


def _preview(path: Path, suffix: str, size: int) -> Preview:
    if suffix in IMAGES:
        return Preview("image") if size <= IMAGE_BYTES else Preview("none", "The image is too large to show.")
    if suffix in (".parquet", ".arrow"):
        return _preview_arrow(path)
    with untrusted.open_file(path) as file:
        data = file.read(PREVIEW_BYTES)
    text = _decode(data)
    if text is None:
        return Preview("none", "This file is not text. Download it to open it.")
    if suffix in _TABLES:
        return _preview_rows(text, _TABLES[suffix], cut=size > len(data))
    if suffix == ".json" and size <= len(data):
        text = _format_json(text)
    return Preview("text", text, cut=size > len(data))


def _decode(data: bytes) -> str | None:
    """The text of UTF-8 bytes, whose last character may be cut; None if they are something else."""
    if b"\0" in data:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(data)
    except UnicodeDecodeError:
        return None


def _format_json(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _preview_rows(text: str, separator: str, *, cut: bool) -> Preview:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows: list[list[str]] = []
    try:
        for row in reader:
            if row:
                rows.append([cell[:200] for cell in row[:50]])
            if len(rows) > ROWS + 1:
                break
    except csv.Error:
        return Preview("text", text, cut=cut)
    if not rows:
        return Preview("none", "The file is empty.")
    return Preview("table", columns=rows[0], rows=rows[1 : ROWS + 1], cut=cut or len(rows) > ROWS + 1)


def _preview_arrow(path: Path) -> Preview:
    """The first rows of an Arrow or Parquet file; only its first batch is read."""
    import pyarrow as pa  # heavy: only where such a file is opened
    import pyarrow.parquet as pq

    try:
        with untrusted.open_file(path) as file:
            if path.suffix.lower() == ".parquet":
                batch = next(pq.ParquetFile(file).iter_batches(batch_size=ROWS), None)
            else:
                batch = pa.ipc.open_file(file).get_batch(0).slice(0, ROWS)
    except (pa.ArrowException, OSError, IndexError) as error:
        return Preview("none", f"The table cannot be read: {error}")
    if batch is None:
        return Preview("none", "The table has no rows.")
    columns = [str(name) for name in batch.schema.names]
    rows = [[_cell(row[name]) for name in columns] for row in batch.to_pylist()]
    return Preview("table", columns=columns, rows=rows, cut=True)


def _cell(value: object) -> str:
    text = f"{len(value)} bytes" if isinstance(value, bytes) else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def file_url(kind: str, name: str, path: str, *, inline: bool = False) -> str:
    """The address of a file on the page's server.

    Args:
        kind: What it belongs to: ``jobs``, ``models``, ``data`` …
        name: Of the job, or ``name:version`` of the asset.
        path: As the page lists it.
        inline: Whether the browser shows it, which it does for images only.
    """
    return f"/files/{quote(kind, safe='')}/{quote(name, safe='')}/{quote(os.fsencode(path))}" + (
        "?inline=1" if inline else ""
    )


ARTIFACTS, OUTPUTS = "artifacts", "outputs"


class Root(Struct, frozen=True):
    """A folder of a job's files, and what it is called."""

    key: str
    title: str
    folder: Path


def list_roots(home: Home, job: JobRecord) -> list[Root]:
    """The folders of a job's files that are not empty."""
    roots = [root for root in _roots(home, job) if list_folder(home, root.folder)]
    return sorted(roots, key=lambda root: root.key == ARTIFACTS)


def _roots(home: Home, job: JobRecord) -> list[Root]:
    roots = [Root(ARTIFACTS, "Logs and artifacts", artifacts_folder(home, job.name))]
    folder = run_folder(home, job)
    if folder is None:
        return roots
    if job.parent is None and job.step is None:
        roots.append(Root(OUTPUTS, "Outputs of the pipeline", folder.outputs))
    steps = [job.step] if job.step else step_names(home, job)
    single = len(steps) == 1
    for step in steps:
        title = "Outputs" if single else f"Outputs of {step}"
        roots.append(Root(f"step-{step}", title, folder.step(step).outputs))
    return roots


def list_entries(home: Home, job: JobRecord, path: str) -> list[Entry]:
    """The entries of a folder; each has its path with the key of its root."""
    key, _, rest = path.partition("/")
    folder = _find_folder(_roots(home, job), key)
    entries = [] if folder is None else list_folder(home, folder, rest)
    return [replace(entry, path=f"{key}/{entry.path}") for entry in entries]


def find_output(home: Home, job: JobRecord, path: str) -> Path | None:
    """The real path of a file or folder of a job; None if there is none."""
    key, _, rest = path.strip("/").partition("/")
    folder = _find_folder((*_roots(home, job), *_log_roots(home, job)), key)
    return None if folder is None else resolve_inside(home, folder, rest)


def _find_folder(roots: Iterable[Root], key: str) -> Path | None:
    return next((root.folder for root in roots if root.key == key), None)


def _log_roots(home: Home, job: JobRecord) -> Iterator[Root]:
    folder = run_folder(home, job)
    if folder is not None:
        steps = [job.step] if job.step else step_names(home, job)
        yield from (Root(f"log-{step}", f"Logs of {step}", folder.step(step).logs) for step in steps)


TAIL_BYTES = 256 << 10  # of a log that is shown when it is opened
CHUNK_BYTES = 256 << 10  # read at once while it grows


class Log(Struct, frozen=True):
    """A log: ``step`` and ``process`` name it."""

    step: str
    process: str
    path: Path

    @property
    def key(self) -> str:
        """``train/rank-0``."""
        return f"{self.step}/{self.process}"


def run_folder(home: Home, job: JobRecord) -> RunFolder | None:
    """The folder of the run that a job belongs to, if it has begun."""
    if not is_file_name(job.root):
        return None
    folder = RunFolder(home.runs / job.root)
    return folder if folder.root.is_dir() else None


def step_names(home: Home, job: JobRecord) -> list[str]:
    """The steps of the run whose folders belong to a job: its own, or all of a job that was submitted."""
    folder = run_folder(home, job)
    if folder is None:
        return []
    if job.parent is not None:
        return [job.step] if job.step and is_file_name(job.step) else []
    try:
        present = {path.name for path in (folder.root / "steps").iterdir() if path.is_dir()}
    except OSError:
        return []
    planned = [*((read_json(folder.root / RECORD) or {}).get("steps") or {})]  # in the order of the pipeline
    return [name for name in planned if name in present] + sorted(present.difference(planned), key=by_number)


def list_logs(home: Home, job: JobRecord) -> list[Log]:
    """The logs of a job, by step and rank."""
    folder = run_folder(home, job)
    if folder is None:
        return []
    return [
        Log(step, path.stem, path)
        for step in step_names(home, job)
        for path in sorted(folder.step(step).logs.glob("*.log"), key=lambda path: by_number(path.stem))
    ]


def choose_log(logs: Sequence[Log], run: RunRecord) -> Log:
    """The log that a reader wants first: of what failed, else of what runs, else the first."""
    for state in ("failed", "died", "running"):
        for log in logs:
            step = run.steps.get(log.step)
            if step is not None and step.state == state and step.failed_process in (None, log.process):
                return log
    return logs[0]


class LogTail:
    """The end of a growing file: at most ``TAIL_BYTES`` at first, then what is added.

    A file that is replaced, as by another attempt of a step, is read from its beginning.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0  # bytes before the first line that was read
        self._position = -1
        self._inode = 0
        self._decoder = Decoder()

    def read_lines(self, *, final: bool = False) -> list[str]:
        """The lines that were completed since the last call; ``final`` gives an incomplete last one too."""
        try:
            with untrusted.open_file(self.path) as file:
                status = os.fstat(file.fileno())
                lines = self._start(status.st_ino, status.st_size)
                file.seek(self._position)
                data = file.read(max(CHUNK_BYTES, TAIL_BYTES))
        except OSError:
            return []
        drop = self._position > 0 and self._position == self.skipped
        self._position += len(data)
        lines += self._decoder.feed(data, final=final and not data)
        return lines[1:] if drop and lines else lines  # the first is the end of a line that was skipped

    def _start(self, inode: int, size: int) -> list[str]:
        if inode == self._inode and size >= self._position >= 0:
            return []
        again = self._inode != 0
        self._inode, self._decoder = inode, Decoder()
        self._position = self.skipped = max(0, size - TAIL_BYTES)
        return ["", "— the log begins again —", ""] if again else []
