"""Each rule on its own files: what it says, word for word, and that good files are silent under all rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import case_pages
import pytest

import worldsize
from worldsize.base import limits
from worldsize.documents.diagnostics import text

HERE = Path(__file__).parent
CASES = [case for page in case_pages.read_all(HERE, "WS*.md") for case in page.cases]
BAD = [case for case in CASES if case.name.startswith("bad")]
GOOD = [case for case in CASES if case.name.startswith("good")]


def configure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in the folder of a page, with smaller limits where ``limits.json`` asks for them."""
    monkeypatch.chdir(folder)
    settings = folder / "limits.json"
    if settings.exists():
        for key, value in json.loads(settings.read_text()).items():
            monkeypatch.setattr(limits, key, value)


@pytest.mark.parametrize("case", BAD, ids=str)
def test_bad_files_say_what_is_wrong_and_have_no_other_error(
    case: case_pages.Case,
    written: Callable[[Path], Path],
    update_golden: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configure(written(case.page), monkeypatch)
    code = case.page.stem.split("-")[0]
    report = worldsize.check(case.name)
    own = [diagnostic for diagnostic in report.diagnostics if diagnostic.code == code]
    assert own, [(diagnostic.code, diagnostic.message) for diagnostic in report.diagnostics]
    shown = "\n".join(text.render_diagnostic(diagnostic, report.sources) for diagnostic in own)
    if update_golden:
        case_pages.write_expected(case, shown)
    else:
        assert shown == case.expected
    others = {diagnostic.code for diagnostic in report.errors} - {code}
    assert not others, "one cause, one diagnostic"


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_good_files_are_silent_under_all_rules(
    case: case_pages.Case, written: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(written(case.page), monkeypatch)
    # Most files name the size of the examples, and whether Azure adds more of it is not their subject.
    report = worldsize.check(case.name, ignore=[] if case.page.stem.startswith("WS225") else ["WS225"])
    assert report.files or report.passed_over
    assert report.render().startswith(
        f"nothing found in {len(report.files)} file{'s' * (len(report.files) != 1)}"
    )
