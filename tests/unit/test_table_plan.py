"""The task of a label, the kind of a column and the division of rows, which need no other library."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wsshards.errors import UserError
from wssources.column_kinds import find_date_forms, find_kind, parse_column_types, parse_date
from wssources.groups import group_limits, hash_group, newest_key
from wssources.name_lists import join_names, split_names
from wssources.part_counts import PartCounts
from wssources.planned_rows import divide_rows, held_out_rows, validation_rows
from wssources.split_settings import (
    TEST,
    TRAIN,
    VALIDATION,
    SplitSettings,
    find_bounds,
    make_split,
    part_of_file,
)
from wssources.tasks import LabelValues, decide_task, find_separator, split_label


def label(values: list[Any], name: str = "y") -> LabelValues:
    found = LabelValues(name)
    for value in values:
        found.add(value)
    return found


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["cat", "dog", "cat"], "classification"),
        (["true", "false"], "classification"),
        ([0, 1, 2] * 9, "classification"),
        ([3.0, 4.0] * 5, "classification"),
        (["1.5", "2.5", "3.25", "4.75", "5.5"], "regression"),
        ([float(n) for n in range(214)], "regression"),
        ([n + 0.5 for n in range(30)] * 50, "regression"),
        ([["a", "b"], ["a"]], "multi_label"),
        (["red;blue", "red", "blue"], "multi_label"),
        (["a|b", "c|d"], "classification"),
    ],
)
def test_the_label_tells_the_task(values: list[Any], task: str) -> None:
    assert decide_task("auto", [label(values)], sampled=False, called="d.csv").task == task


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        ("auto", [list(range(18, 80))], "62 distinct whole numbers in 62 rows"),
        ("auto", [[0.5, 1.0, 1.5] * 9], "3 distinct numbers with fractions in 27 rows"),
        ("classification", [[n + 0.5 for n in range(30)]], "and `task` is `classification`"),
        ("regression", [["cat", "dog"]], "holds text such as `cat`, and `task` is `regression`"),
        ("classification", [[0, 1], [1, 0]], "names 2 columns"),
        ("multi_label", [[0, 1], [1, 2]], "2 distinct whole numbers in 2 rows, not just 0 and 1"),
        ("language_model", [[0, 1]], "is a table"),
        ("regresion", [[0, 1]], "unknown task"),
    ],
)
def test_a_label_that_does_not_fit_is_refused(task: str, labels: list[list[Any]], message: str) -> None:
    columns = [label(values, f"y{place}") for place, values in enumerate(labels)]
    with pytest.raises(UserError) as caught:
        decide_task(task, columns, sampled=False, called="d.csv")
    assert message in caught.value.message
    assert caught.value.help


def test_an_ambiguous_label_is_decided_by_the_user() -> None:
    ages = label(list(range(18, 80)))
    for task in ("regression", "classification"):
        assert decide_task(task, [ages], sampled=False, called="d.csv").task == task


def test_several_columns() -> None:
    binary, numbers = label([0, 1, 1], "a"), label([0.5, 1, 2], "b")
    assert decide_task("auto", [binary, binary], sampled=False, called="").task == "multi_label"
    assert decide_task("auto", [binary, numbers], sampled=False, called="").task == "regression"
    assert split_label("a, b", ["a", "b"]) == ("a", "b")
    assert split_label("the, label", ["the, label"]) == ("the, label",)
    assert split_label('"the, label",b', ["the, label", "b"]) == ("the, label", "b")


@pytest.mark.parametrize(
    "names", [("a", "b"), ("a, b", "c"), (" a", "b "), ('say "a"', '"a" b', '"'), ('6" pipe', "6'")]
)
def test_lists_of_names_are_read_as_they_are_written(names: tuple[str, ...]) -> None:
    assert split_names(join_names(names)) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [("", ()), (" a , b,,", ("a", "b")), ('"a', ('"a',)), ("a,\n b\n", ("a", "b")), ('""', ()), (",,", ())],
)
def test_lists_of_names_are_read_as_people_write_them(text: str, names: tuple[str, ...]) -> None:
    assert split_names(text) == names
    assert find_separator(["a|b", "b"]) == "|"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5", "", "NA", "1e3"], "number"),
        (["1", "2", "red"], "number"),  # a fault, not a category
        (["true", "False", ""], "boolean"),
        (["2026-01-31", "2026-02-01 12:30"], "date"),
        (["Oslo", "Rome", "1"], "category"),
        (["", ""], "number"),
    ],
)
def test_the_kind_of_a_column(values: list[str], kind: str) -> None:
    assert find_kind(values, cells=True) == kind
    assert find_kind(["1", "2"], cells=False) == "category"  # text in JSON is text


def test_dates() -> None:
    assert parse_date("1970-01-02") == 86_400
    assert parse_date("1970-01-01T01:00:00.5+01:00") == 0.5
    assert [parse_date(text) for text in ("2026-02-30", "31.01.2026", "20260131", "")] == [None] * 4
    assert parse_column_types("zip=category, when = date") == {"zip": "category", "when": "date"}
    assert parse_column_types("seen=date %d/%m/%Y") == {"seen": "date %d/%m/%Y"}
    assert parse_date("31/01/1970 12:00", "%d/%m/%Y %H:%M") == 30.5 * 86_400
    assert parse_date("1970-01-31", "%d/%m/%Y") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seen=date %m/%Y", "`%m/%Y`, which do not tell year, month and day"),
        ("seen=date %d/%m/%Q", "`%d/%m/%Q`, which do not tell year, month and day"),
        ("seen=number %d", "the unknown kind `number %d`"),
    ],
)
def test_a_form_that_is_none(text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        parse_column_types(text)


@pytest.mark.parametrize(
    ("values", "forms"),
    [
        (["01/02/2026", "13/02/2026", None, "NA"], ["%d/%m/%Y"]),
        (["01/02/2026", "02/13/2026"], ["%m/%d/%Y"]),
        (["2026/1/31"], ["%Y/%m/%d"]),
        (["31.1.99 7:05", "1.2.99 12:00"], ["%d.%m.%y %H:%M"]),
        (["01-02-2026", "12-12-2026"], ["%d-%m-%Y", "%m-%d-%Y"]),
        (["13/02/24"], ["%d/%m/%y", "%y/%m/%d"]),
        (["13/02/2026", "02/13/2026"], []),
        (["13/02/2026", "2026-02-13"], []),
        (["red", "blue"], []),
        ([None, ""], []),
    ],
)
def test_values_settle_the_form_of_their_dates(values: list[Any], forms: list[str]) -> None:
    assert find_date_forms(values) == forms
    assert parse_column_types('"income, yearly=number"') == {"income, yearly": "number"}
    assert parse_column_types('"income, yearly"=number,') == {"income, yearly": "number"}


@settings(deadline=None)
@given(st.integers(0, 5000), st.floats(0, 0.6), st.floats(0, 0.39))
def test_a_class_is_divided_with_a_row_left_to_train(rows: int, validation: float, test: float) -> None:
    validated, tested = held_out_rows(rows, validation, test)
    assert tested == validation_rows([rows], test)
    assert validated + tested < rows or not rows
    assert held_out_rows(rows, validation, 0)[0] == validation_rows([rows], validation)
    assert sum(divide_rows([rows, rows], validation, test)) == 2 * rows


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=60),
    st.floats(0, 0.6),
    st.floats(0, 0.39),
    st.integers(0, 9),
)
def test_groups_stay_together_and_are_divided_by_their_number(
    sizes: list[int], validation: float, test: float, seed: int
) -> None:
    counts = PartCounts(SplitSettings(validation, test, by="customer", seed=seed))
    for group, rows in enumerate(sizes):
        for _ in range(rows):
            counts.add("", key=hash_group(group, seed))
    hashes = {hash_group(group, seed): rows for group, rows in enumerate(sizes)}
    tested, held = group_limits(sorted(hashes), validation, test)
    parts = Counter(TEST if each < tested else VALIDATION if each < held else TRAIN for each in hashes)
    wanted_validation, wanted_test = held_out_rows(len(sizes), validation, test)
    assert (parts[VALIDATION], parts[TEST]) == (wanted_validation, wanted_test)
    assert counts.divide()[0] == sum(rows for each, rows in hashes.items() if each >= held)
    assert sum(counts.divide()) == sum(sizes)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=60), st.floats(0, 0.6), st.floats(0, 0.39))
def test_the_newest_rows_are_held_out(times: list[int], validation: float, test: float) -> None:
    counts = PartCounts(SplitSettings(validation, test, time="sold"))
    for time in times:
        counts.add("", key=newest_key(time))
    train, validated, tested = counts.divide()
    ordered = sorted(times)
    parts = ordered[:train], ordered[train : train + validated], ordered[train + validated :]
    assert len(parts[2]) == tested
    assert parts[0]
    for older, newer in ((0, 1), (1, 2), (0, 2)):
        assert not parts[older] or not parts[newer] or parts[older][-1] < parts[newer][0]
    if len(set(times)) == len(times):
        assert (validated, tested) == held_out_rows(len(times), validation, test)


@given(st.lists(st.floats(allow_nan=False), min_size=2))
def test_keys_of_times_are_in_their_order_from_the_newest(times: list[float]) -> None:
    np = pytest.importorskip("numpy")
    from wssources.split import newest_keys, times_of_keys

    keys = [newest_key(time) for time in times]
    assert newest_keys(np.array(times)).tolist() == keys
    assert times_of_keys(np.array(keys, np.uint64)).tolist() == times
    assert [times[place] for place in sorted(range(len(times)), key=keys.__getitem__)] == sorted(
        times, reverse=True
    )


def test_bounds_of_time() -> None:
    split = make_split(
        {"validation_fraction": 0.2, "validation_after": "2026-01-10", "test_after": "2026-02-01"}
    )
    bounds = find_bounds(split, "when", "date")
    days = ("2026-01-09 23:59:59", "2026-01-10", "2026-01-31", "2026-02-01")
    assert [bounds.part(parse_date(day) or 0) for day in days] == [TRAIN, VALIDATION, VALIDATION, TEST]


def test_parts_are_named_by_files_and_folders() -> None:
    names = (
        "train.csv",
        "train/a.csv",
        "val.jsonl.gz",
        "valid/x/y.csv",
        "Test.parquet",
        "more.csv",
        "x/train.csv",
    )
    assert [part_of_file(name) for name in names] == [TRAIN, TRAIN, VALIDATION, VALIDATION, TEST, None, None]
