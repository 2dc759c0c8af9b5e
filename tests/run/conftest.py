"""A folder in which `worldsize run` is called, empty of processes afterwards, and the shipped pipelines."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


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


@dataclass
class Shipped:
    """What a shipped pipeline has printed, and the folder with its runs and MLflow's database."""

    output: str
    home: Path

    @property
    def newest(self) -> Path:
        return max((self.home / "runs").iterdir())

    @property
    def metrics(self) -> dict[str, Any]:
        """What the step `evaluate` or `score` has measured."""
        (path,) = self.newest.glob("steps/*/outputs/metrics/metrics.json")
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content


@pytest.fixture
def shipped(tmp_path: Path) -> Callable[..., Shipped]:
    """Run a shipped pipeline as a user does, in new processes, which must go well and leave nothing behind.

    `steps` are those that run, all of them if it is empty; the others are what a step has instead.
    """
    psutil = pytest.importorskip("psutil")

    def run(name: str, processes: int = 2, steps: tuple[str, ...] = (), **changes: Any) -> Shipped:
        path, home = ROOT / "pipelines" / f"{name}.yml", tmp_path / "home"
        if steps or changes:
            spec = yaml.safe_load(path.read_text(encoding="utf-8"))
            spec["steps"] = {step: spec["steps"][step] for step in steps or spec["steps"]}
            for step, change in changes.items():
                settings = spec["steps"][step]["with"] | change.get("with", {})
                spec["steps"][step] |= change | {"with": settings}
            if path.with_suffix("").is_dir():  # the scripts of its own
                shutil.copytree(path.with_suffix(""), tmp_path / name, dirs_exist_ok=True)
            path = tmp_path / f"{name}.yml"
            path.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        before = {child.pid for child in psutil.Process().children(recursive=True)}
        command = [sys.executable, "-m", "worldsize", "run", path, "--runs-dir", home]
        done = subprocess.run(
            [*command, "--processes", str(processes)],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=550,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
        assert not [each for each in psutil.process_iter(["cmdline"]) if str(home) in str(each.info)]
        return Shipped(done.stdout + done.stderr, home)

    return run
