"""Every command of the documentation does what its page says. CONTRIBUTING.md says how pages are written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documented_commands import DOCS, REASONS, ROOT, Block, Command, agrees, read_blocks, read_commands

PAGES = {page.relative_to(DOCS).as_posix(): page for page in sorted(DOCS.rglob("*.md"))}


def blocks_of(page: Path, *, tier: str) -> list[Block]:
    blocks = list(read_blocks(page))
    trains = any("run" in block.directives for block in blocks)
    return blocks if trains == (tier == "run") else []


FAST = [name for name, page in PAGES.items() if blocks_of(page, tier="fast")]
TRAINING = [name for name, page in PAGES.items() if blocks_of(page, tier="run")]


@pytest.mark.parametrize("name", FAST)
def test_the_commands_of_a_page(name: str, tmp_path: Path) -> None:
    follow(PAGES[name], tmp_path, seconds=60)


@pytest.mark.run
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TRAINING)
def test_the_trainings_of_a_page(name: str, tmp_path: Path) -> None:
    follow(PAGES[name], tmp_path, seconds=300)


@pytest.mark.parametrize("name", PAGES)
def test_what_is_not_run_says_why(name: str) -> None:
    for block in read_blocks(PAGES[name]):
        if "not run" in block.directives:
            assert block.directives["not run"] in REASONS, f"{name}:{block.line}"
        assert block.language not in {"bash", "sh", "shell"}, f"{name}:{block.line}: a command is `console`"


def follow(page: Path, folder: Path, *, seconds: float) -> None:
    """Do what a page says, in an empty folder."""
    for block in read_blocks(page):
        if "folder" in block.directives:
            shutil.copytree(ROOT / block.directives["folder"], folder, dirs_exist_ok=True)
        if block.title:
            file = folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language == "console" and "not run" not in block.directives:
            for command in read_commands(block):
                run(command, folder, f"{page.name}:{command.line}", seconds)


def run(command: Command, folder: Path, place: str, seconds: float) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "HOME": str(folder)}
    ended = subprocess.run(
        ["bash", "-c", command.text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert ended.returncode == command.status, f"{place}: {command.text}\n{ended.stdout}"
    if command.output is not None:
        assert agrees(ended.stdout, command.output), f"{place}: {command.text}\n{ended.stdout}"


@pytest.mark.parametrize(
    ("printed", "documented", "expected"),
    [
        ("a\nb\n", "a\nb", True),
        ("a\nb\n", "a\nc", False),
        ("a\nb\nc\n", "a\n...\nc", True),
        ("a\nb\nc\n", "...\nc", True),
        ("a\nb\nc\n", "a\n...", True),
        ("a\nb\nc\n", "a\nb", False),
        ("a\nb\nc\n", "b\nc", False),
        ("took 12 s\n", "took ... s", True),
        ("took 12 min\n", "took ... s", False),
    ],
)
def test_three_dots_stand_for_anything(printed: str, documented: str, expected: bool) -> None:
    assert agrees(printed, documented) is expected
