"""Stores layers with packages between runs; each is built once.

A layer is built in another folder and then moved to its path, so a layer at its path is complete. A run that
uses a layer holds a shared lock on it, and a run that builds it an exclusive one; the system releases the
locks of a process that dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from worldsize.running.environments import layers
from worldsize.running.environments.layers import find_installers, layer_variables, make_layer
from worldsize.running.environments.requirements import digest_requirements
from worldsize.running.launch.group import Group
from worldsize.running.launch.logs import last_lines
from worldsize.running.launch.supervisor import Supervisor
from worldsize.running.model.process import Process

FOLDER = "environments"
LAST_LINES = 6
LONGEST_LINE = 200
_FORMAT = "1"  # a layer of another format has another key
_PROGRAMS_FORMAT = "3"
_OPTIONS = (
    *("--no-input", "--disable-pip-version-check", "--no-color", "--no-python-version-warning"),
    *("--progress-bar", "off", "--no-warn-script-location", "--prefer-binary"),
)


class BuildError(Exception):
    """pip could not install what an environment asks for.

    Attributes:
        lines: the last lines of its output, or its errors if there are any.
        log: the file with all of its output.
    """

    def __init__(self, lines: Sequence[str], log: Path) -> None:
        super().__init__(lines[0] if lines else "pip failed")
        self.lines = tuple(lines)
        self.log = log


@dataclass(frozen=True, slots=True)
class LayerStore:
    """The kept layers of one home."""

    root: Path  # their folder
    supervisor: Supervisor  # starts pip, and sees to its end
    say: Callable[[str], None]  # tells the user what takes long

    def layer(
        self, name: str, lines: Sequence[str], locks: contextlib.ExitStack, *, wheels_only: bool = False
    ) -> Path:
        """Return the layer with what these lines for pip ask for; build it if there is none.

        ``held`` receives the layer's lock: the layer is not removed before it is closed. With ``wheels_only``
        nothing is compiled.

        Raises:
            BuildError: pip could not install it.
            OSError: the folder cannot be written.
        """
        layer = self.root / layer_key(lines)
        self.root.mkdir(parents=True, exist_ok=True)
        lock = locks.enter_context(_lock_file(layer))
        fcntl.flock(lock, fcntl.LOCK_SH)
        while not layer.exists():
            self._exclusive(lock, name)
            if not layer.exists():  # no other run was faster
                self._build(layer, name, lines, wheels_only=wheels_only)
            fcntl.flock(lock, fcntl.LOCK_SH)  # it may be removed between the two
        return layer

    def programs(self) -> Path:
        """A folder whose ``bin`` holds the programs of this Python's packages, for any layer's Python."""
        python_folder = Path(sys.executable).parent
        parts = "\0".join(
            [
                _PROGRAMS_FORMAT,
                str(python_folder),
                str(python_folder.stat().st_mtime_ns),
                repr(find_installers()),
            ]
        )
        programs = self.root / f"programs-{hashlib.sha256(parts.encode()).hexdigest()[:16]}"
        if not programs.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            with _build_beside(programs) as building:
                layers.borrow_scripts(building)
                _move(building, programs)
        return programs

    def _exclusive(self, lock: int, name: str) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.say(f"waiting for another run that builds {name}")
            fcntl.flock(lock, fcntl.LOCK_EX)

    def _build(self, layer: Path, name: str, lines: Sequence[str], *, wheels_only: bool) -> None:
        self.say(f"building the environment {name}; it is kept for later runs")
        log = self.root / f"{layer.name}.log"
        log.unlink(missing_ok=True)
        for stale in self.root.glob(f"{layer.name}.*.building"):
            shutil.rmtree(stale, ignore_errors=True)
        with _build_beside(layer) as building:
            make_layer(building)
            (building / "requirements.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
            python = building / "bin" / "python"
            options = (*_OPTIONS, *(("--only-binary", ":all:") if wheels_only else ()))
            argv = (str(python), "-m", "pip", "install", *options, "-r", str(building / "requirements.txt"))
            env = layer_variables({}, [building])
            if not run_program(self.supervisor, layer.name, argv, env, self.root):
                raise BuildError(find_reasons(log), log)
            layers.free_scripts(building / "bin", python)
            _move(building, layer)


def layer_key(lines: Sequence[str]) -> str:
    """The name of a layer, by its contents and the Python below it."""
    parts = [_FORMAT, sys.version, sys.platform, sys.prefix, digest_requirements(lines)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def run_program(
    supervisor: Supervisor, name: str, argv: Sequence[str], env: dict[str, str], folder: Path
) -> bool:
    """Run a program with its output in ``<folder>/<name>.log``; whether it succeeded."""
    process = Process(name, rank=None, local_rank=0, node=0, argv=tuple(argv), env=env)
    with Group([process], supervisor, cwd=folder, logs=folder) as group:
        group.wait()
        return group.failure is None and not group.lost


def _lock_path(layer: Path) -> Path:
    return layer.with_name(f"{layer.name}.lock")


@contextlib.contextmanager
def _lock_file(layer: Path) -> Iterator[int]:
    number = os.open(_lock_path(layer), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield number
    finally:
        os.close(number)


@contextlib.contextmanager
def _build_beside(layer: Path) -> Iterator[Path]:
    """A temporary folder to build in, beside the final path."""
    outer = Path(tempfile.mkdtemp(prefix=f"{layer.name}.", suffix=".building", dir=layer.parent))
    try:
        yield outer / "layer"
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _move(building: Path, layer: Path) -> None:
    try:
        building.rename(layer)
    except OSError:
        if not layer.exists():  # another run was faster with the same layer
            raise


def find_reasons(log: Path) -> list[str]:
    """The lines in which pip explains its failure, cut because pip may list every version of a package."""
    lines = [line for line in last_lines(log, 200) if line.strip()]
    errors = [line for line in lines if line.lstrip().upper().startswith("ERROR:")]
    shown_lines = errors[:LAST_LINES] or lines[-LAST_LINES:]
    return [line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…" for line in shown_lines]
