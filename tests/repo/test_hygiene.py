"""What every committed file must obey: size, links, and nothing of the machine it was written on."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import architecture
import pytest

ROOT = Path(__file__).parents[2]
TOP_LEVEL = {
    "pyproject.toml", "README.md", "components", "pipelines", "compiler", "schemas", "tests",
    "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "SECURITY.md",
}  # fmt: skip
# A file is as long as its idea.
MAX_LINES, MAX_FUNCTION_LINES, MAX_BYTES = 600, 60, 1_000_000
# Spelt in pieces, so that this file does not find itself.
MACHINE_PATHS = re.compile("|".join(f"/{name}/" for name in ("work", "root", "home/[a-z]+", "Users/[a-z]+")))
REGISTRY_HOSTS = re.compile(
    "|".join(["py" + r"pi\.org", "python" + "hosted", "registry\\.npm" + "js", "deb\\.de" + "bian"])
)


@cache
def committed() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def python_files() -> list[Path]:
    return [path for path in committed() if path.suffix == ".py"]


def length(function: ast.FunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def statements(text: str, tree: ast.Module | None) -> tuple[ast.AST, ...]:
    """Those of a file that can hold a long function; ``tree`` is the file parsed, where that is done."""
    if text.count("\n") <= MAX_FUNCTION_LINES:
        return ()
    return architecture.statements(tree or ast.parse(text))


def test_the_top_level_is_fixed() -> None:
    names = {path.relative_to(ROOT).parts[0] for path in committed()}
    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL


def test_files_and_functions_stay_short() -> None:
    trees = {module.path: module.tree for module in architecture.modules()}
    too_long = []
    for path in python_files():
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT)
        if text.count("\n") > MAX_LINES:
            too_long.append(f"{name}: {text.count(chr(10))} lines")
        too_long += [
            f"{name}: {node.name} is {length(node)} lines"
            for node in statements(text, trees.get(path))
            if isinstance(node, ast.FunctionDef) and length(node) > MAX_FUNCTION_LINES
        ]
    assert not too_long


def test_nothing_large_is_committed() -> None:
    assert not [str(path) for path in committed() if path.stat().st_size > MAX_BYTES]


def test_no_python_file_exists_twice() -> None:
    seen: dict[str, list[str]] = defaultdict(list)
    for path in python_files():
        content = path.read_bytes()
        if len(content) > 200:
            seen[hashlib.sha256(content).hexdigest()].append(str(path.relative_to(ROOT)))
    assert not [names for names in seen.values() if len(names) > 1]


def test_nothing_tells_of_the_machine_it_was_written_on() -> None:
    found = []
    for path in committed():
        if path.suffix in {".png", ".ico"}:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if not (MACHINE_PATHS.search(text) or REGISTRY_HOSTS.search(text)):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATHS.search(line) or REGISTRY_HOSTS.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not found


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_every_path_a_document_names_exists(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    code = re.findall(r"`((?:components|compiler|pipelines|schemas|tests|\.ci|\.github)/[\w./-]+)`", text)
    missing = [name for name in links + code if not (ROOT / name).exists()]
    assert not missing


def test_the_readme_shows_what_the_checker_says_today() -> None:
    said = (ROOT / "tests/golden/messy_project.txt").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```\n(pipeline\.yml:.*?)```", readme, re.DOTALL)
    assert shown is not None
    assert shown[1] in said


def test_the_readme_stays_short() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 200
