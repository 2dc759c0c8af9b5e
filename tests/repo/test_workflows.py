"""What GitHub runs for this repository: pinned, constrained, and clean under zizmor."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documented_commands import DOCS, read_blocks

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob(".github/actions/*/action.yml")])


def folded(path: Path) -> str:
    """The text with continued shell lines and folded YAML lines joined."""
    return re.sub(r"(\\|>-)?\n\s+(?=--)", " ", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_actions_are_pinned_by_hash_and_name_their_release(path: Path) -> None:
    uses = re.findall(r"^\s*(?:- )?uses: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert uses
    loose = [
        line for line in uses if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)
    ]
    assert not [line for line in loose if not line.startswith("./")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_nothing_is_installed_without_constraints(path: Path) -> None:
    installs = [line for line in folded(path).splitlines() if "pip install" in line]
    assert not [line for line in installs if "--constraint" not in line and "--require-hashes" not in line]


def test_a_build_takes_only_what_it_knows_the_hash_of() -> None:
    lines = (ROOT / ".ci/build-requirements.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert {line.partition("==")[0] for line in lines} >= {"build", "hatchling"}
    assert not [
        line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line)
    ]


@pytest.mark.parametrize(
    ("tag", "heading", "fault"),
    [
        ("v0.2.0", "0.2.0 (2026-12-01)", None),
        ("v0.2.1", "0.2.0 (2026-12-01)", "the tag is v0.2.1, but pyproject.toml has 0.2.0"),
        (
            "v0.2.0",
            "0.2.0 (unreleased)",
            "`0.2.0 (unreleased)`; `make changelog` writes `0.2.0 (YYYY-MM-DD)`",
        ),
        ("v0.2.0", "0.1.0", "`0.1.0`; `make changelog` writes"),
    ],
)
def test_a_release_has_one_version_everywhere(tag: str, heading: str, fault: str | None) -> None:
    find_disagreement = runpy.run_path(str(ROOT / ".ci/check_release.py"))["find_disagreement"]
    found = find_disagreement(tag, 'version = "0.2.0"\n', f"# Changelog\n\n## {heading}\n\n## 0.0.1\n")
    assert found is None if fault is None else fault in found


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the workflows that the documentation shows."""
    folder = tmp_path_factory.mktemp("shown")
    for page in sorted(DOCS.rglob("*.md")):
        for block in read_blocks(page):
            if (block.title or "").startswith(".github/workflows/"):
                file = folder / str(block.title)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text, encoding="utf-8")
    assert list(folder.rglob("*.yml"))
    return folder


@pytest.mark.parametrize("whose", ["ours", "shown"])
def test_zizmor_finds_nothing(whose: str, shown: Path) -> None:
    zizmor = shutil.which("zizmor", path=str(Path(sys.executable).parent))
    if zizmor is None:
        pytest.skip("zizmor is not installed: it is part of the extra `dev`")
    done = subprocess.run(
        [zizmor, "--offline", "--no-progress", str(ROOT / ".github" if whose == "ours" else shown)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_documentation_names_one_version() -> None:
    version = re.search(
        r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob(".github/actions/*/README.md")]
    named = {
        (page.relative_to(ROOT).as_posix(), found)
        for page in pages
        for found in re.findall(
            r"(?:worldsize/worldsize[\w./-]*@v|rev: v|worldsize==)(\d[\w.]*)",
            page.read_text(encoding="utf-8"),
        )
    }
    assert version is not None
    assert len(named) >= 4
    assert {found for _, found in named} == {version[1]}, named
