"""Each rule on its own files: what it says, word for word, and that good files are silent under all rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import worldsize
from worldsize.diagnostics import text
from worldsize.base import limits

HERE = Path(__file__).parent
CASES = sorted(path for path in HERE.iterdir() if path.is_dir() and path.name.startswith("WS"))
BAD = sorted(path for case in CASES for path in case.glob("bad*") if path.suffix != ".out")
GOOD = sorted(path for case in CASES for path in case.glob("good*"))


def name(path: Path) -> str:
    return str(path.relative_to(HERE))


def configure(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in the case's folder, with smaller limits where ``limits.json`` asks for them."""
    monkeypatch.chdir(case)
    settings = case / "limits.json"
    if settings.exists():
        for key, value in json.loads(settings.read_text()).items():
            monkeypatch.setattr(limits, key, value)


@pytest.mark.parametrize("path", BAD, ids=name)
def test_bad_files_say_what_is_wrong_and_have_no_other_error(
    path: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(path.parent, monkeypatch)
    code = path.parent.name.split("-")[0]
    report = worldsize.check(path.name)
    own = [diagnostic for diagnostic in report.diagnostics if diagnostic.code == code]
    assert own, [(diagnostic.code, diagnostic.message) for diagnostic in report.diagnostics]
    shown = "\n".join(text.render_diagnostic(diagnostic, report.sources) for diagnostic in own)
    golden = path.parent / f"{path.stem}.out"
    if update_golden:
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")
    others = {diagnostic.code for diagnostic in report.errors} - {code}
    assert not others, "one cause, one diagnostic"


@pytest.mark.parametrize("path", GOOD, ids=name)
def test_good_files_are_silent_under_all_rules(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(path.parent, monkeypatch)
    # Most files name the size of the examples, and whether Azure adds more of it is not their subject.
    report = worldsize.check(path.name, ignore=[] if path.parent.name.startswith("WS225") else ["WS225"])
    assert report.files or report.passed_over
    assert report.render().startswith(
        f"nothing found in {len(report.files)} file{'s' * (len(report.files) != 1)}"
    )
