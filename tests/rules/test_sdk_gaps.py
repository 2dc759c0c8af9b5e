"""Faults that Azure's own client accepts, or refuses without saying where: each is caught at its line.

A case is a YAML file, or a folder whose ``case.yml`` is checked with what it refers to. A line that
must be reported ends with ``# <- WS6``, the family of its code; where a comment cannot stand on the
line, a comment elsewhere says ``<- WS6 line 7``. A case without such a mark is correct and must give no
error. Nothing but the marked lines may be an error.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import worldsize

HERE = Path(__file__).parent / "sdk_gaps"
MARK = re.compile(r"<- (WS\d*)(?: line (\d+))?\s*$", re.MULTILINE)
NAME = re.compile(r"[A-Z]\d+[a-z]?")
CASES = sorted(path for path in HERE.iterdir() if NAME.fullmatch(path.stem))


def expected(path: Path) -> dict[tuple[str, int], str]:
    """The marked lines of a file or folder, by file name, with the family of each."""
    found = {}
    for file in [path] if path.is_file() else sorted(path.rglob("*.yml")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            for family, elsewhere in MARK.findall(line):
                found[file.name, int(elsewhere or number)] = family
    return found


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_fault_is_reported_at_its_line_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE)
    report = worldsize.check(path.relative_to(HERE))
    wanted = expected(path)
    said = [(Path(one.span.path).name, one.span.line, one) for one in report.diagnostics]
    for (name, line), family in wanted.items():
        met = [one.code for file, at, one in said if (file, at) == (name, line)]
        assert any(code.startswith(family) for code in met), (name, line, family, report.render())
    strays = [one for file, line, one in said if (file, line) not in wanted and str(one.severity) == "error"]
    assert not strays, report.render()
