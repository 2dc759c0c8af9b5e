"""`make test` installs a browser where it may, and never fails because it could not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "browser"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The only folder of PATH: no browser, and no apt-get."""
    for name in ("bash", "env", "id", "timeout"):
        if found := shutil.which(name):
            (tmp_path / name).symlink_to(found)
    return tmp_path


def set_up(programs: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": str(programs)}
    return subprocess.run(
        ["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=30, check=False
    )


def add(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/usr/bin/env bash\n{script}\n")
    program.chmod(0o755)


def test_a_machine_without_apt_is_told_so(programs: Path) -> None:
    done = set_up(programs)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "no apt-get here" in line
    assert "The tests of the page are skipped" in line


def test_an_installation_that_fails_fails_nothing(programs: Path) -> None:
    add(programs, "apt-get", "exit 100")
    done = set_up(programs)
    assert done.returncode == 0
    assert "The tests of the page are skipped" in done.stderr.splitlines()[-1]


def test_a_browser_that_is_there_is_kept(programs: Path) -> None:
    add(programs, "apt-get", "touch called")
    add(programs, "google-chrome", "exit 1")
    done = set_up(programs)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (programs / "called").exists()
