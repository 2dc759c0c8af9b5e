"""A project as one meets them, ten files and twelve faults: what a user is shown, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize

HERE = Path(__file__).parent
PROJECT = HERE / "messy_project"


def test_each_fault_is_found_once(monkeypatch: pytest.MonkeyPatch, update_golden: bool) -> None:
    monkeypatch.chdir(PROJECT)
    report = worldsize.check(".")
    golden = HERE / "messy_project.txt"
    if update_golden:
        golden.write_text(report.render(), encoding="utf-8")
    assert report.render() == golden.read_text(encoding="utf-8")
    assert len(report.diagnostics) == 12
    assert len({(found.span.path, found.span.line) for found in report.diagnostics}) == 12


def test_the_project_has_ten_files() -> None:
    assert len([path for path in PROJECT.rglob("*") if path.suffix in (".yml", ".py")]) == 10


@pytest.mark.parametrize("format_", ["text", "json", "sarif", "github", "junit"])
def test_no_format_shows_the_secret(format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    shown = worldsize.check(".").render(format_)
    assert "WS801" in shown
    assert "Zm9vYmFy" not in shown
