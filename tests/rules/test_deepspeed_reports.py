"""DeepSpeed configurations of real bug reports: one diagnostic each, on its line of the JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize
from worldsize.diagnostics import text

HERE = Path(__file__).with_name("deepspeed_reports")
WRONG = sorted(path for path in HERE.iterdir() if path.name[0].isdigit() and path.is_dir())
RIGHT = sorted(HERE.glob("good-*"))


def name(path: Path) -> str:
    return path.name


def test_there_are_at_least_twenty_and_each_names_its_report() -> None:
    listed = (HERE / "README.md").read_text(encoding="utf-8")
    assert len(WRONG) >= 20
    assert all(f"| {path.name} | [" in listed for path in WRONG)


@pytest.mark.parametrize("path", WRONG, ids=name)
def test_a_wrong_one_gets_one_diagnostic_in_the_json(
    path: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path)
    report = worldsize.check(".")
    shown = "\n".join(text.render_diagnostic(each, report.sources) for each in report.diagnostics)
    assert len(report.diagnostics) == 1, shown
    assert report.diagnostics[0].span.path == "src/ds_config.json"
    golden = path / "said.out"
    if update_golden:
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", RIGHT, ids=name)
def test_a_right_one_gets_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path)
    report = worldsize.check(".")
    assert report.files == ("job.yml",)
    assert report.render() == "nothing found in 1 file\n"
