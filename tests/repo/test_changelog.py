"""The lines that wait for a release in compiler/changelog.d, and how `make changelog` joins them."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "compiler/changelog.d"
FRAGMENTS = sorted(path for path in FOLDER.iterdir() if path.name != "README.md")
KINDS = ("added", "changed", "fixed", "removed")


def find_fault(name: str, text: str) -> str | None:
    """What is wrong with a fragment, in the words of the folder's README."""
    if not re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md", name):
        return f"write <slug>.<kind>.md, where the kind is one of {', '.join(KINDS)}"
    if text.count("\n") != 1 or not text.endswith(".\n"):
        return "write one line that ends with a full stop"
    return "write at most 200 characters" if len(text) > 201 else None


def test_each_file_is_a_line_of_the_changelog() -> None:
    faults = {path.name: find_fault(path.name, path.read_text(encoding="utf-8")) for path in FRAGMENTS}
    assert not {name: fault for name, fault in faults.items() if fault}


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("check-json.added.md", "`check` does this.\n", None),
        ("check-json.md", "`check` does this.\n", "where the kind is one of"),
        ("check-json.feature.md", "`check` does this.\n", "where the kind is one of"),
        ("check-json.added.md", "`check` does this\n", "a full stop"),
        ("check-json.added.md", "`check` does\nthis.\n", "one line"),
        ("check-json.added.md", "x" * 200 + ".\n", "at most 200"),
    ],
)
def test_a_file_that_is_no_line_is_refused(name: str, text: str, fault: str | None) -> None:
    found = find_fault(name, text)
    assert found is None if fault is None else found is not None and fault in found


def test_the_changelog_has_one_entry_for_each_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(headings) == len(set(headings))


def test_a_release_joins_the_files_below_one_dated_heading(tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    if shutil.which("make") is None or not (tools / "towncrier").exists():
        pytest.skip("towncrier is part of the extra `dev`")
    version = metadata.version("worldsize")
    folder = tmp_path / "compiler/changelog.d"
    folder.mkdir(parents=True)
    for name in ("pyproject.toml", "Makefile"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copy(FOLDER / "README.md", folder)
    marker = re.search(r"^<!-- .* -->$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert marker is not None
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(
        f"# Changelog\n\n{marker[0]}\n\n## {version} (unreleased)\n\n### check\n\n- By hand.\n",
        encoding="utf-8",
    )
    (folder / "check-b.fixed.md").write_text("`check` reads `b`.\n", encoding="utf-8")
    (folder / "run-a.added.md").write_text("`run` takes `--a`.\n", encoding="utf-8")

    # `-o`: the environment is there, and not to be made in this folder.
    joining = ["make", "-o", ".venv/.all", f"BIN={tools}", "changelog"]
    done = subprocess.run(
        joining,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = changelog.read_text(encoding="utf-8")
    expected = [
        "### Added",
        "- `run` takes `--a`.",
        "### Fixed",
        "- `check` reads `b`.",
        "### check",
        "- By hand.",
    ]
    lines = [line for line in text.splitlines() if line]
    assert re.fullmatch(rf"## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", lines[2])
    assert lines[3:] == expected
    assert [path.name for path in folder.iterdir()] == ["README.md"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "CHANGELOG.md",
        "Makefile",
        "compiler",
        "pyproject.toml",
    ]
    assert disagreement(version, text, []) is None
    assert "check-b.fixed.md" in str(disagreement(version, text, ["check-b.fixed.md"]))


def environment(folder: Path) -> dict[str, str]:
    """That of a release; git looks for a checkout in the folder, and no further."""
    made = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "GIT_"))}
    return made | {"GIT_CEILING_DIRECTORIES": str(folder.parent)}


def disagreement(version: str, changelog: str, fragments: list[str]) -> str | None:
    """What stops a release of that version."""
    find_disagreement = runpy.run_path(str(ROOT / ".ci/check_release.py"))["find_disagreement"]
    found: str | None = find_disagreement(f"v{version}", f'version = "{version}"\n', changelog, fragments)
    return found
