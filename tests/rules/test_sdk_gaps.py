"""Faults that Azure's own client accepts, or refuses without saying where: each is caught at its line.

A case is a YAML file, or a folder whose ``case.yml`` is checked with what it refers to. A line that must be
reported ends with ``# <- WS6``, the family of its code; where a comment cannot stand on the line, a comment
elsewhere says ``<- WS6 line 7``. A case without such a mark is correct and must give no error. Nothing but
the marked lines may be an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePath

import case_pages
import pytest

import worldsize

MARK = re.compile(r"<- (WS\d*)(?: line (\d+))?\s*$", re.MULTILINE)
CASES = [case for page in case_pages.read_all(Path(__file__).parent, "sdk_gaps-*.md") for case in page.cases]


def expected(case: case_pages.Case) -> dict[tuple[str, int], str]:
    """The marked lines of the files of a case, by file name, with the family of each."""
    found = {}
    for file in case.files:
        for number, line in enumerate(file.text.splitlines(), 1):
            for family, elsewhere in MARK.findall(line):
                found[PurePath(file.path).name, int(elsewhere or number)] = family
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.removesuffix(".yml"))
def test_a_fault_is_reported_at_its_line_and_nothing_else(
    case: case_pages.Case, written: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written(case.page))
    report = worldsize.check(case.name)
    wanted = expected(case)
    said = [(Path(one.span.path).name, one.span.line, one) for one in report.diagnostics]
    for (name, line), family in wanted.items():
        met = [one.code for file, at, one in said if (file, at) == (name, line)]
        assert any(code.startswith(family) for code in met), (name, line, family, report.render())
    strays = [one for file, line, one in said if (file, line) not in wanted and str(one.severity) == "error"]
    assert not strays, report.render()
