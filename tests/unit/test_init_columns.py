"""`worldsize init` leaves out columns of a table that only name the row, whatever the others are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from worldsize import checking
from worldsize.cli.main import main


def init(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["init", *arguments])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_columns_that_name_the_row_are_left_out(folder: Path) -> None:
    rows = "".join(f"{n},customer {n},{n % 7},{'ab'[n % 2]}\n" for n in range(60))
    (folder / "data.csv").write_text(",name,visits,label\n" + rows, encoding="utf-8")

    done = init("--from", "data.csv")

    assert done.exit_code == 0, done.output
    assert "the label is `label`, by its name" in done.output
    assert "features: visits  # without columns" in (folder / "data.yml").read_text(encoding="utf-8")
    assert checking.check(["."]).diagnostics == ()


def test_a_number_of_the_row_is_left_out(folder: Path) -> None:
    rows = "".join(f"{n},{n % 7},{n},{'ab'[n % 2]}\n" for n in range(60))
    (folder / "data.csv").write_text("Customer_ID,visits,age,label\n" + rows, encoding="utf-8")

    assert init("--from", "data.csv").exit_code == 0
    assert "features: visits,age  #" in (folder / "data.yml").read_text(encoding="utf-8")


def test_a_number_of_the_row_is_left_out_beside_names_with_commas(folder: Path) -> None:
    rows = "".join(f"{n},{n % 7},{n * 2},{'ab'[n % 2]}\n" for n in range(60))
    (folder / "data.csv").write_text('Customer_ID,"visits, total",age,label\n' + rows, encoding="utf-8")

    assert init("--from", "data.csv").exit_code == 0
    assert "features: '\"visits, total\",age'  #" in (folder / "data.yml").read_text(encoding="utf-8")
    assert checking.check(["."]).diagnostics == ()


def test_blanks_after_commas_of_the_header_are_kept(folder: Path) -> None:
    rows = "".join(f"{n}, {n % 7}, {n * 2}, {'ab'[n % 2]}\n" for n in range(60))
    (folder / "data.csv").write_text("customer, id, age, label\n" + rows, encoding="utf-8")

    done = init("--from", "data.csv")

    assert done.exit_code == 0, done.output
    assert "by its name" in done.output
    assert checking.check(["."]).diagnostics == ()
