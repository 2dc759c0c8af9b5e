"""A folder in which `worldsize run` is called, empty of processes afterwards, and the shipped pipelines."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from shipped_runs import Shipped, run_shipped


@dataclass
class Project:
    """A folder with files, in which `worldsize run` is called."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "worldsize", "run", *words]
        if "--dry-run" not in words:
            command.append("--no-track")
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **more}
        return subprocess.Popen(command, cwd=self.folder, **more)

    def run(self, *words: str) -> tuple[int, str]:
        with self.start(*words) as process:
            text, _ = process.communicate(timeout=80)
        return process.returncode, text

    @property
    def newest(self) -> Path:
        return max((self.folder / ".worldsize" / "runs").iterdir())

    def log(self, step: str, rank: int = 0) -> str:
        return (self.newest / "steps" / step / "logs" / f"rank-{rank}.log").read_text()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.newest / "events.jsonl").read_text().splitlines()]

    def processes(self) -> list[Any]:
        """Processes that work in the folder."""
        psutil = pytest.importorskip("psutil")
        listed = psutil.process_iter(["cwd", "status"])  # what may not be read is None
        inside = str(self.folder)
        return [each for each in listed if (each.info["cwd"] or "").startswith(inside) and each.is_running()]

    def nothing_left(self, seconds: float = 8) -> bool:
        deadline = time.monotonic() + seconds
        while self.processes():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def wait_for(self, pattern: str, count: int = 1, seconds: float = 30) -> None:
        """Wait until so many files of a name are there."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError):  # the run moves folders meanwhile
                if len(list(self.folder.rglob(pattern))) >= count:
                    return
            time.sleep(0.02)
        raise AssertionError("the step did not get that far")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    assert made.nothing_left(), made.processes()


@pytest.fixture
def shipped(tmp_path: Path) -> Callable[..., Shipped]:
    """Run a shipped pipeline as a user does; see :func:`shipped_runs.run_shipped`."""
    return partial(run_shipped, tmp_path)
