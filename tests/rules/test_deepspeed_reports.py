"""DeepSpeed configurations of real bug reports: one diagnostic each, on its line of the JSON."""

from __future__ import annotations

import re
from pathlib import Path

import case_pages
import pytest

import worldsize
from worldsize.documents.diagnostics import text

PAGES = list(case_pages.read_all(Path(__file__).parent, "deepspeed_reports*.md"))
CASES = sorted((case for page in PAGES for case in page.cases), key=lambda case: case.name)
WRONG = [case for case in CASES if case.name[0].isdigit()]
RIGHT = [case for case in CASES if case.name.startswith("good-")]
REPORT = re.compile(r"\[\S+/\S+#(\d+)\]\(https://github\.com/\S+/\1\)\. The user saw ")


def name(case: case_pages.Case) -> str:
    return case.name


def write(case: case_pages.Case, folder: Path) -> None:
    """Write the project of a case."""
    case_pages.write(case_pages.read(case.page).list_files(case), folder)


def test_there_are_at_least_twenty_and_each_names_its_report() -> None:
    assert len(WRONG) >= 20
    assert not [case.name for case in WRONG if not REPORT.match(case.reason)]


@pytest.mark.parametrize("case", WRONG, ids=name)
def test_a_wrong_one_gets_one_diagnostic_in_the_json(
    case: case_pages.Case, update_golden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(case, tmp_path)
    monkeypatch.chdir(tmp_path)
    report = worldsize.check(".")
    shown = "\n".join(text.render_diagnostic(each, report.sources) for each in report.diagnostics)
    assert len(report.diagnostics) == 1, shown
    assert report.diagnostics[0].span.path == "src/ds_config.json"
    if update_golden:
        case_pages.write_expected(case, shown)
    else:
        assert shown == case.expected


@pytest.mark.parametrize("case", RIGHT, ids=name)
def test_a_right_one_gets_none(
    case: case_pages.Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(case, tmp_path)
    monkeypatch.chdir(tmp_path)
    report = worldsize.check(".")
    assert report.files == ("job.yml",)
    assert report.render() == "nothing found in 1 file\n"
