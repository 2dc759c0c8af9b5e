"""The fixes of all bad examples: the finding is gone, the file still parses, a second fix does nothing."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

import worldsize
from worldsize import fixing, yaml
from worldsize.diagnostics.diagnostic import Diagnostic

HERE = Path(__file__).parent
BAD = sorted(
    path
    for path in HERE.glob("WS*/bad*")
    # what has limits of its own or is no text has no fixes
    if path.suffix != ".out" and not (path.parent / "limits.json").exists()
)
PARTS = 4


def fixable(path: str, *, unsafe: bool) -> set[tuple[str, str]]:
    found = worldsize.check(path).diagnostics
    return {(each.code, each.message) for each in found if is_fixable(each, unsafe=unsafe)}


def is_fixable(diagnostic: Diagnostic, *, unsafe: bool) -> bool:
    return diagnostic.fix is not None and (unsafe or diagnostic.fix.safe)


def read(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def assert_parses(path: Path, before: bytes) -> None:
    if path.suffix == ".py":
        ast.parse(path.read_text(encoding="utf-8"))
    elif yaml.load(path, before).root is not None:
        assert yaml.load(path, path.read_bytes()).root is not None, path


@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
@pytest.mark.parametrize("part", range(PARTS))
def test_after_a_fix_the_finding_is_gone(
    part: int, unsafe: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = 0
    for bad in BAD[part::PARTS]:
        monkeypatch.chdir(bad.parent)
        if not fixable(bad.name, unsafe=unsafe):
            continue
        copy = tmp_path / bad.parent.name
        shutil.copytree(bad.parent, copy, dirs_exist_ok=True)
        monkeypatch.chdir(copy)
        wanted = fixable(bad.name, unsafe=unsafe)
        before = read(copy)
        report = fixing.fix(bad.name, unsafe=unsafe).report
        assert not wanted & {(each.code, each.message) for each in report.diagnostics}, bad
        assert not [each for each in report.diagnostics if is_fixable(each, unsafe=unsafe)], bad
        after = read(copy)
        for path, content in after.items():
            if content != before[path]:
                assert_parses(path, before[path])
        assert fixing.fix(bad.name, unsafe=unsafe).changes == (), bad
        assert read(copy) == after
        fixed += report.fixed
    assert fixed
