"""Columns that alone tell the label are found, and honest ones are not, however strong they are."""

from __future__ import annotations

import random

import pytest
from sklearn import datasets

from wsleaks.columns import MAX_ROWS, find_telling_columns

draw = random.Random(5)
ROWS = 1_000
RARE = ["yes" if draw.random() < 0.07 else "no" for _ in range(ROWS)]
NUMBERS = [draw.gauss(0, 1) for _ in range(ROWS)]


@pytest.mark.parametrize(
    ("values", "by_presence"),
    [
        ([0.0 if label == "yes" else 1 + draw.random() for label in RARE], False),  # a threshold
        ([abs(draw.gauss(0, 1)) if label == "yes" else None for label in RARE], True),  # filled in afterwards
        (["paid" if label == "no" else draw.choice(["sold", "closed"]) for label in RARE], False),
        ([label == "yes" for label in RARE], False),
        (
            [0.5 if label == "yes" else draw.choice([-9, 9]) + draw.random() for label in RARE],
            False,
        ),  # a band
    ],
)
def test_a_column_that_tells_the_class_is_named_with_its_numbers(
    values: list[object], by_presence: bool
) -> None:
    noise = [draw.gauss(0, 1) for _ in RARE]

    (column,) = find_telling_columns({"noise": noise, "late": values}, RARE, classes=True)

    assert (column.name, column.by_presence, column.rows) == ("late", by_presence, ROWS // 2)
    assert column.score > 0.998
    assert 0.9 < column.constant < 0.96


def test_an_id_tells_only_where_rows_are_sorted_by_the_label() -> None:
    ids = list(range(ROWS))

    assert find_telling_columns({"id": ids}, RARE, classes=True) == []
    assert len(find_telling_columns({"id": ids}, sorted(RARE), classes=True)) == 1


@pytest.mark.parametrize("values", [[3 * y + 1 for y in NUMBERS], [2.0**y for y in NUMBERS]])
def test_a_function_of_the_number_to_predict_tells_it(values: list[float]) -> None:
    noisy = [y + draw.gauss(0, 0.3) for y in NUMBERS]

    (column,) = find_telling_columns({"noisy": noisy, "copy": values}, NUMBERS, classes=False)

    r2 = f"R² is {column.score:.4g} on 500 rows"
    assert column.describe("price") == f"column `copy` alone tells `price`: {r2}"


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits", "diabetes"])
def test_well_known_tables_are_honest(name: str) -> None:
    data = getattr(datasets, f"load_{name}")()
    columns = {str(place): data.data[:, place].tolist() for place in range(data.data.shape[1])}

    assert find_telling_columns(columns, data.target.tolist(), classes=name != "diabetes") == []


def test_few_rows_and_few_of_another_class_say_nothing() -> None:
    few = ["yes"] * 20 + ["no"] * 980

    assert find_telling_columns({"copy": [*few]}, few, classes=True) == []
    assert find_telling_columns({"copy": [None, 1]}, [None, 1], classes=False) == []
    assert find_telling_columns({}, RARE, classes=True) == []


def test_many_columns_share_a_budget() -> None:
    columns = {str(place): NUMBERS for place in range(5_000)}

    assert find_telling_columns(columns, RARE, classes=True) == []
    assert find_telling_columns({"copy": RARE * 10}, RARE * 10, classes=True)[0].rows == MAX_ROWS // 2
