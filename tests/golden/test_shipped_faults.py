"""Faults that people make around the shipped pipelines, and what `worldsize check` says of each: one finding.

``shipped_faults/<pipeline>.txt`` has a paragraph for each; ``--update-golden`` rewrites them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import media_faults
import pytest
import table_faults
from fault_projects import Edit, make_pictures, make_table, make_texts, read_spec

import worldsize
from worldsize.documents.diagnostics.diagnostic import Diagnostic

HERE = Path(__file__).parent / "shipped_faults"
Make = Callable[[Path, str], None]
FAULTS: dict[str, tuple[Make, Mapping[str, Edit]]] = {
    "diabetes_ddp": (make_table, table_faults.DIABETES),
    "breast_cancer_ddp": (make_table, table_faults.CANCER),
    "photographs_ddp": (make_pictures, media_faults.PHOTOGRAPHS),
    "photographs_tensorflow": (make_pictures, media_faults.TENSORFLOW),
    "python_source_bpe": (make_texts, media_faults.TEXTS),
}
GOOD = {**table_faults.GOOD, **media_faults.GOOD}


def check(folder: Path, name: str, make: Make, edit: Edit) -> list[Diagnostic]:
    """Findings of a project with a fault; notes are none."""
    folder.mkdir()
    make(folder, name)
    edit(folder)
    report = worldsize.check([folder / "spec.yml"])
    return [each for each in report.diagnostics if str(each.severity) != "info"]


def describe(folder: Path, found: Diagnostic) -> str:
    """The finding in two lines, with the text from where it points."""
    line = (folder / "spec.yml").read_text(encoding="utf-8").splitlines()[found.span.line - 1]
    token = line[found.span.column - 1 :].split("}")[0][:30].rstrip()
    return f"{found.severity}[{found.code}] at `{token}`: {found.message}\n    {found.help}\n"


@pytest.mark.parametrize("name", [*FAULTS, "finetune_text"])
def test_the_specs_are_short(name: str) -> None:
    assert len(read_spec(name).replace("\n\n", "\n").strip().splitlines()) <= 20


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_finding(
    name: str, tmp_path: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, faults = FAULTS[name]
    paragraphs = []
    assert len(faults) >= 20
    for number, (title, edit) in enumerate(faults.items()):
        folder = tmp_path / str(number)
        monkeypatch.chdir(tmp_path)
        found = check(folder, name, make, edit)
        assert len(found) == 1, (title, found)
        assert found[0].help, title
        paragraphs.append(f"{title}\n  {describe(folder, found[0])}".replace(str(folder), "."))
    text, golden = "\n".join(paragraphs), HERE / f"{name}.txt"
    if update_golden:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("title", GOOD)
def test_nothing_is_found_in_what_is_as_it_should_be(title: str, tmp_path: Path) -> None:
    name, edit = GOOD[title]
    assert check(tmp_path / "good", name, FAULTS[name][0], edit) == []
