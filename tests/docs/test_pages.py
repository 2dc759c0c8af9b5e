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


OF_GOLDEN = "worked_estimates.md"  # its outputs are written by tests/golden/test_worked_estimates.py
COMMANDED = [
    name
    for name, page in PAGES.items()
    if name != OF_GOLDEN
    and any(block.language == "console" and "not run" not in block.directives for block in read_blocks(page))
]


def takes_a_moment(name: str) -> bool:
    """Whether none of a page's commands trains, or starts a server or a browser."""
    blocks = [block for block in read_blocks(PAGES[name]) if block.language == "console"]
    words = {word for block in blocks for command in read_commands(block) for word in command.text.split()}
    return not words & {"run", "resume", "adopt", "serve", "submit", "pytest"}


@pytest.mark.run
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.smoke] * takes_a_moment(name)) for name in COMMANDED],
)
def test_the_commands_of_a_page(name: str, tmp_path: Path) -> None:
    for block in read_blocks(PAGES[name]):
        if "follows" in block.directives:
            prepare(DOCS / block.directives["follows"], tmp_path)
        follow_block(block, tmp_path, name)


@pytest.mark.run
@pytest.mark.timeout(300)
def test_the_tutorial_from_page_to_page(tmp_path: Path) -> None:
    prepare(PAGES["tutorial/index.md"], tmp_path)
    for name in ("scale", "check", "submit", "retrain"):
        for block in read_blocks(PAGES[f"tutorial/{name}.md"]):
            follow_block(block, tmp_path, f"{name}.md")


@pytest.mark.parametrize("name", PAGES)
def test_what_is_not_run_says_why(name: str) -> None:
    for block in read_blocks(PAGES[name]):
        if "not run" in block.directives:
            assert block.directives["not run"] in REASONS, f"{name}:{block.line}"
        assert block.language not in {"bash", "sh", "shell"}, f"{name}:{block.line}: a command is `console`"


def prepare(page: Path, folder: Path) -> None:
    """Do what a page says before the first of its commands is Worldsize's."""
    for block in read_blocks(page):
        commands = read_commands(block) if block.language == "console" else []
        if any(command.text.startswith("worldsize") for command in commands):
            return
        follow_block(block, folder, page.name)


def follow_block(block: Block, folder: Path, name: str) -> None:
    if "folder" in block.directives:
        shutil.copytree(ROOT / block.directives["folder"], folder, dirs_exist_ok=True)
    if block.title:
        file = folder / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")
    elif block.language == "console" and "not run" not in block.directives:
        for command in read_commands(block):
            run(command, folder, f"{name}:{command.line}")


def run(command: Command, folder: Path, place: str) -> None:
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
        timeout=200,
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
