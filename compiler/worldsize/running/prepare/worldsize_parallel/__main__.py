"""``python -m worldsize_parallel``: runs the mini-batches of a step, and writes their results."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import data, settings
from .pool import Pool, Tally, say
from .settings import DriverError, Settings

MAX_WORKERS_PER_CORE = 4  # more would only wait for each other


def main() -> int:
    """Run the driver; the exit status is 0, or 1 with the reason as the last line."""
    try:
        read = settings.read(sys.stdin)
        tally = work(read)
    except DriverError as error:
        say(f"error: {error}")
        return 1
    say(str(tally))
    return 0


def work(read: Settings) -> Tally:
    """Run the mini-batches of a step, and write what they returned.

    Raises:
        DriverError: It cannot be done, or too much has failed.
    """
    if not read.entry_script.is_file():
        raise DriverError(f"`entry_script` is `{read.entry_script}`, which `code` does not contain")
    loaded = data.load(read)
    limit = max(8, MAX_WORKERS_PER_CORE * (os.cpu_count() or 1))
    count = min(read.workers, len(loaded.batches), limit)
    workers = f"{count} of {read.workers} workers"
    say(f"{len(loaded.batches)} mini-batches of {loaded.items} {loaded.noun} for {workers}")
    logs = Path("logs")
    logs.mkdir(exist_ok=True)
    pool = Pool(loaded, read, count, logs)
    try:
        tally = pool.run()
    except DriverError:
        say(f"stopped: {pool.tally}")
        raise
    if read.append_row_to is not None:
        write(read.append_row_to, tally.aggregated(header=read.append_header))
    return tally


def write(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
