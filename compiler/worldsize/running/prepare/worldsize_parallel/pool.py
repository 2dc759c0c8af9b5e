"""Runs the workers: starts them, assigns mini-batches, and replaces workers that crash or hang."""

from __future__ import annotations

import collections
import contextlib
import json
import multiprocessing
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .data import Batch, Work
from .settings import DriverError, Settings
from .worker import send

SHUTDOWN_SECONDS = 60.0  # for the script's `shutdown`
LAST_LINES = 10
Job = tuple[Batch, int]  # and the number of earlier attempts


@dataclass
class Tally:
    """Counts of mini-batches and items.

    A mini-batch fails when ``run`` raises, hangs or ends its process in every attempt; then all of its items
    have failed. Items without a result of ``run`` have failed too, but not their mini-batch: ``run`` may
    return an empty list on purpose.
    """

    batches: int
    items: int
    succeeded: int = 0
    failed: int = 0
    processed_items: int = 0
    failed_items: int = 0
    retried: int = 0
    texts: dict[int, tuple[str, str]] = field(default_factory=dict)  # by mini-batch

    @property
    def done(self) -> int:
        """Mini-batches that have ended."""
        return self.succeeded + self.failed

    def succeed(self, index: int, items: int, returned: int, text: tuple[str, str] | None) -> None:
        """Count a mini-batch that succeeded."""
        self.succeeded += 1
        self.processed_items += min(items, returned)
        self.failed_items += max(0, items - returned)
        if text is not None:
            self.texts[index] = text

    def fail(self, items: int) -> None:
        """Count a mini-batch that failed finally."""
        self.failed += 1
        self.failed_items += items

    def exceeded(self, settings: Settings) -> str | None:
        """Describe the threshold that was exceeded, if any."""
        if 0 <= settings.error_threshold < self.failed_items:
            return f"{self.failed_items} items failed, and `error_threshold` is {settings.error_threshold}"
        limit = settings.mini_batch_error_threshold
        if 0 <= limit < self.failed:
            return f"{self.failed} mini-batches failed, and `mini_batch_error_threshold` is {limit}"
        percent = settings.allowed_failed_percent
        if self.failed * 100 > percent * self.batches:
            many = f"{self.failed} of {self.batches} mini-batches failed"
            return f"{many}, and `allowed_failed_percent` is {percent:g}"
        return None

    def aggregated(self, *, header: bool) -> str:
        """The results of all mini-batches, in order."""
        texts = [self.texts[index] for index in sorted(self.texts)]
        first = texts[0][1] if header and texts else ""
        return "".join([first, *(lines for lines, _ in texts)])

    def __str__(self) -> str:
        return (
            f"{self.batches} mini-batches: {self.succeeded} succeeded, {self.failed} failed,"
            f" {self.retried} tried again; {self.items} items: {self.processed_items} processed,"
            f" {self.failed_items} failed"
        )


class Worker:
    """One process and its connection.

    A replacement has the same number and log. Without ``threads`` each would use all cores of the machine.
    """

    def __init__(self, number: int, settings: Settings, log: Path, threads: int) -> None:
        self.number, self.log = number, log
        self.job: Job | None = None
        self.deadline: float | None = None
        self.ready = False
        self._line, theirs = multiprocessing.Pipe()
        with theirs, log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            )
        arguments, level = list(settings.arguments), settings.logging_level
        send(self._line, {"script": str(settings.entry_script), "arguments": arguments, "level": level})

    def fileno(self) -> int:
        """What a selector waits on."""
        return self._line.fileno()

    def give(self, job: Job, work: Work, settings: Settings) -> None:
        """Assign a mini-batch."""
        batch, _ = self.job = job
        self.deadline = time.monotonic() + settings.timeout
        message = {
            "index": batch.index,
            "content": work.content(batch),
            "key": batch.key,
            "first": batch.positions[0],
            "wanted": settings.append_row_to is not None,
        }
        send(self._line, message)

    def hear(self) -> Iterator[dict[str, Any]]:
        """Its messages; the last one is ``{"ended": …}`` when it has ended."""
        try:
            yield self._line.recv()
            while self._line.poll():
                yield self._line.recv()
        except (EOFError, OSError):
            yield {"ended": ending(self._process.wait())}

    def close(self) -> None:
        """Close the connection, so that it calls ``shutdown`` and exits."""
        self._line.close()

    def wait(self, seconds: float) -> None:
        """Wait for its end, then kill it."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()
        self._line.close()


class Pool:
    """Works through all mini-batches, and reports events as text and progress as a tally."""

    def __init__(self, work: Work, settings: Settings, count: int, logs: Path) -> None:
        self.tally = Tally(len(work.batches), work.items)
        self._work, self._settings, self._logs = work, settings, logs
        self._pending = collections.deque((batch, 0) for batch in work.batches)
        self._failed_starts = 0
        self._threads = max(1, (os.cpu_count() or 1) // count)
        self._selector = selectors.DefaultSelector()
        self._workers: list[Worker] = []
        for number in range(count):
            self._start(number)

    def run(self) -> Tally:
        """Run all mini-batches; no worker is left when it returns.

        Raises:
            DriverError: The script cannot be used, or a threshold was exceeded.
        """
        try:
            while self.tally.done < self.tally.batches:
                self._assign()
                for key, _ in self._selector.select(self._patience()):
                    self._hear(key.data)
                self._end_overdue()
            self._shut_down()
        finally:
            for worker in self._workers:
                worker.kill()
            self._selector.close()
        return self.tally

    def _start(self, number: int) -> None:
        log = self._logs / f"worker-{number:02}.log"
        worker = Worker(number, self._settings, log, self._threads)
        self._workers.append(worker)
        self._selector.register(worker, selectors.EVENT_READ, worker)

    def _assign(self) -> None:
        for worker in self._workers:
            if worker.ready and worker.job is None and self._pending:
                worker.give(self._pending.popleft(), self._work, self._settings)

    def _patience(self) -> float | None:
        deadlines = [worker.deadline for worker in self._workers if worker.deadline is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _hear(self, worker: Worker) -> None:
        if worker not in self._workers:
            return
        for message in worker.hear():
            if "ready" in message:
                worker.ready = True
                self._failed_starts = 0
            elif "broken" in message:
                raise DriverError(f"`{self._settings.entry_script}` cannot be used: {message['broken']}")
            elif "ended" in message:
                self._lost(worker, message["ended"])
            else:
                self._returned(worker, message)

    def _returned(self, worker: Worker, message: dict[str, Any]) -> None:
        assert worker.job is not None
        (batch, tried), worker.job, worker.deadline = worker.job, None, None
        if "error" in message:
            self._failed((batch, tried), message["error"])
            return
        count = len(batch.positions)
        self.tally.succeed(batch.index, count, message["returned"], message.get("text"))
        self._over()

    def _lost(self, worker: Worker, how: str) -> None:
        """Replace a worker that has ended or hangs."""
        self._selector.unregister(worker)
        self._workers.remove(worker)
        worker.kill()
        if worker.job is not None:
            self._failed(worker.job, f"its worker {how}")
        elif not worker.ready:
            self._failed_starts += 1
            if self._failed_starts > self._settings.max_retries:
                raise DriverError(f"worker {worker.number} {how} before `init` was done{quoted(worker.log)}")
        self._start(worker.number)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.deadline is not None and worker.deadline <= now:
                self._lost(worker, f"took longer than {self._settings.timeout:g} s")

    def _failed(self, job: Job, reason: str) -> None:
        batch, tried = job
        again = tried < self._settings.max_retries
        say(f"mini-batch {batch.index} failed: {reason}" + ("; it is tried again" if again else ""))
        if again:
            self.tally.retried += 1
            self._pending.append((batch, tried + 1))
            return
        self.tally.fail(len(batch.positions))
        self._over()

    def _over(self) -> None:
        show_progress(self.tally)
        reason = self.tally.exceeded(self._settings)
        if reason is not None:
            raise DriverError(reason)

    def _shut_down(self) -> None:
        for worker in self._workers:
            worker.close()
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        for worker in self._workers:
            worker.wait(deadline - time.monotonic())
        self._workers.clear()


def show_progress(tally: Tally) -> None:
    """Report the progress to the runner's view."""
    progress = os.environ.get("WORLDSIZE_PROGRESS")
    if progress:
        with open(progress, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(json.dumps({"step": tally.done, "total_steps": tally.batches}) + "\n")


def say(text: str) -> None:
    """Print a line to the step's log."""
    print(text, flush=True)  # noqa: T201


def ending(status: int) -> str:
    """Describe how a process ended."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def quoted(log: Path) -> str:
    """The last lines of a worker's log, indented."""
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        return "".join(f"\n  {line}" for line in lines)
    return ""
