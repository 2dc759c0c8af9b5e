"""The folder of a run on disk: private to its user, locked while the run is active, with a log of events.

The runner holds the lock, and so do the parents of its processes: a run has ended when none of them is left,
even if the runner was killed. The kernel releases the lock when its holders die.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import chain
from pathlib import Path
from typing import Any

from worldsize.base import untrusted
from worldsize.documents.secrecy.masking import Mask
from worldsize.running.model.folder import OTHERS, RunFolder, ignore_in_git
from worldsize.running.record.json_files import parse_object

LOCK = "lock"
RETRY_SECONDS = 0.05


def now() -> datetime:
    """The current time."""
    return datetime.now(timezone.utc)


def create_run_folder(
    home: Path, clock: Callable[[], datetime] = now, *, run_id: str | None = None
) -> RunFolder:
    """Make the folder of a new run, with the id ``run_id`` if it is given.

    Otherwise the id is the time in milliseconds. If the folder exists, because another run started at the
    same moment, the next millisecond is used.
    """
    runs = home / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    ignore_in_git(home)
    if run_id is not None:
        (runs / run_id).mkdir(mode=0o700)
        return RunFolder((runs / run_id).resolve())
    time = clock()
    while True:
        root = runs / f"{time:%Y%m%d-%H%M%S}-{time.microsecond // 1000:03}"
        try:
            root.mkdir(mode=0o700)
        except FileExistsError:
            time += timedelta(milliseconds=1)
        else:
            return RunFolder(root.resolve())


@contextlib.contextmanager
def private_files() -> Iterator[int]:
    """Create files with mode 0600 and folders with 0700, in this process and those that it starts.

    The umask applies to the whole process, so other threads create private files too.

    Yields:
        The previous umask, for the processes of steps.
    """
    before = os.umask(OTHERS)
    try:
        yield before
    finally:
        os.umask(before)


class AliveError(Exception):
    """The run is active."""


@contextlib.contextmanager
def hold_lock(root: Path, *, patience: float = 0.0) -> Iterator[int]:
    """Hold the lock of a run's folder.

    Args:
        root: The folder.
        patience: Seconds to wait if the runner is dead and its processes are being stopped.

    Yields:
        The file descriptor that holds it, for other processes to inherit.

    Raises:
        AliveError: Another process holds it.
        OSError: The file cannot be made.
    """
    deadline = time.monotonic() + patience
    untrusted.check_file(root / LOCK)
    with os.fdopen(os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
        while not _try_lock(file.fileno()):
            if find_runner(root) is not None or time.monotonic() >= deadline:
                raise AliveError
            time.sleep(RETRY_SECONDS)
        written = os.pwrite(file.fileno(), f"{os.getpid()} {os.uname().nodename}\n".encode(), 0)
        file.truncate(written)
        yield file.fileno()


def find_foreign_link(folder: RunFolder) -> Path | None:
    """Return a link that a resumed run would write through, to a place outside of the home of its runs."""
    home, steps = folder.root.parent.parent.resolve(), folder.root / "steps"
    written = chain(folder.root.iterdir(), steps.glob("*"), steps.glob("*/*"), steps.glob("*/outputs/*"))
    links = (path for path in written if path.is_symlink() and path.parent.name != "inputs")
    return next((link for link in links if not Path(os.path.realpath(link)).is_relative_to(home)), None)


def is_alive(root: Path) -> bool:
    """Whether a run is active."""
    try:
        with untrusted.open_file(root / LOCK) as file:
            return not _try_lock(file.fileno())
    except OSError:  # it never started
        return False


def is_running(root: Path) -> bool:
    """Whether a run is active and its runner lives: of a killed one the processes are being stopped."""
    return is_alive(root) and find_runner(root) is not None


def find_runner(root: Path) -> int | None:
    """The pid of a run's runner, or None if the process has ended; of another machine's it is not known."""
    try:
        pid, _, host = untrusted.read_text(root / LOCK).strip().partition(" ")
        if host == os.uname().nodename:
            os.kill(int(pid), 0)
        return int(pid)
    except PermissionError:
        return int(pid)
    except (OSError, ValueError, OverflowError):
        return None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # another holds it, or the file system has no locks
        return not isinstance(error, BlockingIOError)
    return True


# Names that readers look up: a secret that equals one of these words must not change them.
_NAMES = frozenset({"run", "step", "steps", "process", "processes", "state", "best", "policy"})


class EventLog(contextlib.AbstractContextManager["EventLog"]):
    """Appends events to a file; each is with the operating system before the call returns.

    If the disk is full, the log ends and the run continues: ``fault`` holds the error. ``mask`` hides
    secrets, but not the names of runs, steps and states.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime] = now, *, mask: Mask | None = None) -> None:
        self.fault: OSError | None = None
        self.mask = mask or Mask()
        self._file = path.open("a+b", buffering=0)
        self._clock = clock
        if self._file.seek(0, os.SEEK_END):
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":  # an incomplete line of an earlier writer that died
                self._file.write(b"\n")

    def write(self, event: str, happened: datetime | None = None, /, **details: Any) -> None:
        """Append an event such as ``step_started`` with plain data, but never with an environment.

        It happens now, unless ``happened`` says when it did.
        """
        time = (happened or self._clock()).isoformat(timespec="milliseconds")
        shown = {name: value if name in _NAMES else self.mask.data(value) for name, value in details.items()}
        line = json.dumps({"time": time, "event": event, **shown}, ensure_ascii=False) + "\n"
        if self.fault is None:
            try:
                self._file.write(line.encode("utf-8", "surrogateescape"))
            except OSError as error:
                self.fault = error

    def __exit__(self, *_: object) -> None:
        self._file.close()


def scan_events(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The events of a log, and the number of lines that are not events.

    An incomplete last line, left when the runner died, is not counted. A missing log is empty.

    Raises:
        UnreadableError: The log is not a file, or is larger than any log.
    """
    events, damaged = [], 0
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for line in untrusted.read_lines(path):
            document = parse_object(line)
            if document is not None and isinstance(document.get("event"), str):
                events.append(document)
            elif line.strip() and line.endswith("\n"):
                damaged += 1
    return events, damaged
