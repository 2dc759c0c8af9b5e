"""`worldsize init` leaves out columns of a table that only name the row, whatever the others are called."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml
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


def table(folder: Path, columns: dict[str, list[object]]) -> dict[str, str]:
    """Start a project from a table of these columns; returns the inputs of `shard_data` that it wrote."""
    with (folder / "data.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    done = init("--from", "data.csv", "--force")
    assert done.exit_code == 0, done.output
    assert checking.check(["."]).diagnostics == ()
    spec = yaml.safe_load((folder / "data.yml").read_text(encoding="utf-8"))
    return {**spec["steps"]["shard"]["with"], "said": done.output}


LABEL = ["ab"[n % 2] for n in range(60)]
VISITS = [n % 7 for n in range(60)]


@pytest.mark.parametrize(
    "name",
    [
        *("id", "ID", "CustomerId", "userID", "PassengerId", "order_no", "uuid", "Row-Nr", "rowid"),
        *("IDNumber", "Row #", "Order No.", "Kunden-Nr", "#", "Unnamed: 0", "customer id", "index"),
    ],
)
@pytest.mark.parametrize("start", [0, 7000], ids=["from 0", "offset"])
def test_numbers_of_rows_have_many_names(folder: Path, name: str, start: int) -> None:
    shuffled = [start + n * 7 % 60 for n in range(60)]

    given = table(folder, {name: shuffled, "visits": VISITS, "label": LABEL})

    assert given["features"] == "visits"
    assert f"left out, because it only names the row: `{name}`" in given["said"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("UserID", [n % 7 for n in range(60)]),  # of so many rows each that it says something
        ("floor no", [n % 40 / 2 for n in range(60)]),
        ("account number", [n + 0.5 for n in range(60)]),
        ("amount paid", [*range(60)]),
        ("price index", [*range(60)]),
        ("No. of rooms", [*range(60)]),
        ("humid", [*range(60)]),
    ],
)
def test_features_with_names_like_those_of_rows_stay(folder: Path, name: str, values: list[object]) -> None:
    assert "features" not in table(folder, {name: values, "visits": VISITS, "label": LABEL})


def test_rows_of_one_customer_stay_in_one_part(folder: Path) -> None:
    users, lines = [n % 25 for n in range(60)], [n % 40 for n in range(60)]
    given = table(folder, {"user_id": users, "order_no": lines, "visits": VISITS, "label": LABEL})
    assert given["features"] == "visits"
    assert "because it names what several rows belong to: `user_id`" in given["said"]
    steps = yaml.safe_load((folder / "data.yml").read_text(encoding="utf-8"))["steps"]
    assert steps["shard"]["split"] == {"by": "user_id"}
    assert "features" not in table(folder, {"user_id": users, "label": LABEL})  # better than nothing


def test_dates_that_one_value_settles_are_learned_from(folder: Path) -> None:
    days = [f"{n % 28 + 1:02}/03/2021" for n in range(60)]
    inputs = table(folder, {"seen": days, "visits": VISITS, "label": LABEL})
    assert "column_types" not in inputs
    assert "features" not in inputs


DATES = [f"{n % 12 + 1:02}/03/2021" for n in range(60)]


@pytest.mark.parametrize(
    ("values", "kept", "why"),
    [
        (DATES, True, "has dates such as `01/03/2021`, of which the day and the month are not certain"),
        ([*(f"{n % 28 + 1}/03/2021" for n in range(59)), "31/02/2021"], True, "has `31/02/2021` among dates"),
        ([f"{n}.3.21" for n in range(1, 61)], False, "`odd` of `data.csv` has dates such as `1.3.21`"),
        ([f"{n % 30 + 1},000" for n in range(60)], True, "numbers with separators of thousands"),
        (
            [f"{n + 1},000" for n in range(60)],
            False,
            "to learn from it, write plain numbers: `pandas.read_csv(…, th",
        ),
        (
            [n % 9 or "unknown" for n in range(60)],
            True,
            "`unknown`, which is not a number (7 of 60 values): it is",
        ),
        ([n or "unknown" for n in range(60)], False, "has `unknown`, which is not a number"),
        (["" for _ in range(60)], False, "has no value in any of 60 rows"),
        (["true", "false", "yes", "true"] * 15, True, "has `yes`, which is neither true nor false"),
        (["2021-03-04", "2021-03-05", "soon", "2021-03-05"] * 15, True, "has `soon`, which is not a date"),
    ],
)
def test_what_the_step_would_refuse_is_a_category_or_left_out(
    folder: Path, values: list[object], kept: bool, why: str
) -> None:
    given = table(folder, {"odd": values, "visits": VISITS, "label": LABEL})

    assert why in given["said"]
    assert given.get("column_types") == ("odd=category" if kept else None)
    assert given.get("features") == (None if kept else "visits")


@pytest.mark.parametrize("sign", ["N/A", "NaN", "null", ""])
def test_signs_for_missing_numbers_are_filled(folder: Path, sign: str) -> None:
    given = table(folder, {"age": [n % 9 or sign for n in range(60)], "visits": VISITS, "label": LABEL})

    assert given["missing"] == "fill"
    assert "column_types" not in given


def test_rows_without_a_label_are_counted(folder: Path) -> None:
    gaps = [each if n % 20 else "" for n, each in enumerate(LABEL)]
    given = table(folder, {"age": [n % 9 or "" for n in range(60)], "visits": VISITS, "label": gaps})

    assert given["missing"] == "fill"
    comment = "missing: fill  # 3 of 60 rows have no label, and are left out; other empty cells are filled"
    assert comment in (folder / "data.yml").read_text(encoding="utf-8")


def test_targets_that_are_not_available_are_left_out(folder: Path) -> None:
    prices = [n + 0.5 if n % 20 else "N/A" for n in range(60)]

    given = table(folder, {"visits": VISITS, "target": prices})

    assert (given["task"], given["missing"]) == ("regression", "fill")


def test_a_long_text_beside_columns_is_left_out(folder: Path) -> None:
    notes = [f"a long remark on the visit number {n} of all" for n in range(60)]

    given = table(folder, {"visits": VISITS, "label": LABEL, "notes": notes})

    assert given["features"] == "visits"
    assert "left out, because a long text is read alone, not beside columns: `notes`" in given["said"]


def test_a_text_or_a_date_in_the_last_column_is_no_label(folder: Path) -> None:
    remarks = [f"remark {n}" for n in range(60)]
    given = table(folder, {"visits": VISITS, "churned": LABEL, "sold": DATES, "comment": remarks})

    assert given["label"] == "churned"
    assert "the label is `churned`, the last column of classes or numbers: `--label`" in given["said"]


def test_a_table_of_ids_alone_is_refused(folder: Path) -> None:
    rows = "".join(f"{n},{'ab'[n % 2]}\n" for n in range(60))
    (folder / "data.csv").write_text("CustomerId,label\n" + rows, encoding="utf-8")

    done = init("--from", "data.csv")

    assert done.exit_code == 1
    assert (
        "`data.csv` has no column to learn `label` from: the rest, `CustomerId`, names the row" in done.output
    )


def test_a_fault_names_the_table_and_not_the_spec_that_is_not_written(folder: Path) -> None:
    (folder / "data.csv").write_text("area,price\n" + "".join(f"{n},\n" for n in range(60)), encoding="utf-8")

    done = init("--from", "data.csv", "--label", "price")

    assert done.exit_code == 1
    assert "nothing is written: " in done.output
    assert "data.yml" not in done.output


def train(folder: Path) -> dict[str, object]:
    spec = yaml.safe_load((folder / "data.yml").read_text(encoding="utf-8"))
    inputs: dict[str, object] = spec["steps"]["train"]["with"]
    return inputs


def test_the_classes_of_an_imbalanced_label_are_weighed(folder: Path) -> None:
    visits = [n % 7 for n in range(100)]
    done = table(folder, {"visits": visits, "label": ["yes" if n % 10 == 0 else "no" for n in range(100)]})
    said = "90 % of the rows have the label `no`: `class_weights: balanced` lets the others count as much"
    assert said in done["said"].replace("\n", " ")
    assert train(folder)["class_weights"] == "balanced"
    assert train(folder)["best_metric"] == "average_precision"


@pytest.mark.parametrize(
    "label",
    [
        ["yes" if n % 4 == 0 else "no" for n in range(100)],  # three quarters
        ["yes" if n < 3 else "no" for n in range(100)],  # too few to be sure that one is trained on
        [n if n % 5 == 0 else 0 for n in range(500)],  # a number
    ],
)
def test_other_labels_get_no_weights(folder: Path, label: list[object]) -> None:
    done = table(folder, {"visits": [n % 7 for n in range(len(label))], "label": label})
    assert "class_weights" not in train(folder)
    assert "class_weights" not in done["said"]


def _write_loans(folder: Path, *columns: str) -> None:
    """A table whose last column is the label, with two columns that are filled in after the event."""
    values = {
        "age": lambda n, _: 20 + n * 37 % 61,
        "paid_back": lambda n, late: 0 if late else 200 + n * 53 % 89,
        "collected_on": lambda n, late: f"2026-01-{1 + n % 28:02}" if late else "",
        "late": lambda _, late: "yes" if late else "no",
    }
    rows = [[values[name](n, n * 7 % 10 < 4) for name in columns] for n in range(200)]
    with (folder / "data.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([columns, *rows])


def test_columns_that_alone_tell_the_label_are_left_out(folder: Path) -> None:
    _write_loans(folder, "age", "paid_back", "collected_on", "late")

    done = init("--from", "data.csv")

    assert done.exit_code == 0, done.output
    assert "left out, because column `paid_back` alone tells `late`: it is right in 100 %" in done.output
    assert "left out, because whether column `collected_on` has a value tells `late`" in done.output
    assert "features: age  # without columns that alone tell the label" in (folder / "data.yml").read_text()
    assert checking.check(["."]).diagnostics == ()


def test_a_table_of_nothing_else_keeps_them_and_the_check_says_so(folder: Path) -> None:
    _write_loans(folder, "paid_back", "late")

    done = init("--from", "data.csv")

    assert done.exit_code == 0, done.output
    assert "features" not in (folder / "data.yml").read_text()
    assert [found.code for found in checking.check(["."]).diagnostics] == ["WS547"]


@pytest.mark.parametrize(
    ("label", "rows", "when"),
    [
        ("'ab'[n * 7 % 10 < 4]", 60, {"balanced_accuracy": "> 0.55"}),
        ("'ab'[n % 10 < 1]", 2_000, {"balanced_accuracy": "> 0.55", "average_precision": "< 0.9995"}),
        ("'abc'[n * 7 % 3]", 2_000, {"balanced_accuracy": "> 0.37", "accuracy": "< 0.9995"}),
        ("n * 31 % 997 + 0.5", 60, {"r2": "> 0.05"}),
        ("n * 31 % 997 + 0.5", 1_000, {"r2": "> 0.05", "loss": "> 0.0005"}),
        ("'a;b' if n % 3 else 'b;c'", 60, None),
    ],
)
def test_neither_a_guess_nor_a_model_that_is_always_right_is_registered(
    folder: Path, label: str, rows: int, when: dict[str, str] | None
) -> None:
    lines = [f"{n * 37 % 61},{eval(label, {'n': n})}" for n in range(rows)]
    (folder / "data.csv").write_text("\n".join(["size,label", *lines]))

    done = init("--from", "data.csv")

    assert done.exit_code == 0, done.output
    steps = yaml.safe_load((folder / "data.yml").read_text())["steps"]
    assert steps["register"].get("when") == when
