"""Mini-batches: every item exactly once, and tables read as their MLTable says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.running.prepare.worldsize_parallel import data, mltable, settings
from worldsize.running.prepare.worldsize_parallel.pool import Tally
from worldsize.running.prepare.worldsize_parallel.settings import DriverError, Settings

LINES = {
    "workers": "2",
    "error_threshold": "-1",
    "mini_batch_error_threshold": "-1",
    "max_retries": "2",
    "timeout": "60",
    "logging_level": "INFO",
    "entry_script": "score.py",
}


def read(path: Path | str = ".", **more: str) -> Settings:
    return settings.read(
        f"{key}={value}\n" for key, value in {**LINES, "input_data": str(path), **more}.items()
    )


@given(st.integers(0, 200), st.integers(1, 50))
def test_parting_by_count_takes_every_item_once_in_order(items: int, size: int) -> None:
    parted = data.by_count(items, size)
    assert [position for batch in parted for position in batch.positions] == list(range(items))
    assert all(len(batch.positions) == size for batch in parted[:-1])
    assert [batch.index for batch in parted] == list(range(len(parted)))


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=60))
def test_parting_by_key_takes_every_item_once_and_never_mixes_keys(keys: list[tuple[str, int]]) -> None:
    parted = data.by_key(["letter", "digit"], keys)
    assert sorted(position for batch in parted for position in batch.positions) == list(range(len(keys)))
    for batch in parted:
        assert {keys[position] for position in batch.positions} == {tuple((batch.key or {}).values())}
    assert len(parted) == len(set(keys))


@given(st.integers(1, 10**9), st.integers(1, 10**5), st.integers(0, 10**9))
def test_rows_of_a_size_are_at_least_one_and_about_that_size(size: int, rows: int, total: int) -> None:
    count = data.rows_of(size, rows, total)
    assert count >= 1
    if total:
        assert count == 1 or count * total <= size * rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10kb", 10 << 10), ("1mb", 1 << 20), ("2gb", 2 << 30), ("512", 512), ("7b", 7), ("", 1 << 20)],
)
def test_sizes_have_binary_units(text: str, expected: int) -> None:
    assert read(mini_batch_size=text).byte_count == expected


def test_files_are_taken_from_all_folders_and_sorted(tmp_path: Path) -> None:
    for name in ("b/2.txt", "b/10.txt", "a.txt", "b/c/1.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    work = data.load(read(tmp_path, mini_batch_size="3"))
    names = [[Path(file).name for file in work.content(batch)] for batch in work.batches]
    assert names == [["a.txt", "10.txt", "2.txt"], ["1.txt"]]
    assert data.load(read(tmp_path / "a.txt")).items == 1
    with pytest.raises(DriverError, match="say how many"):
        data.load(read(tmp_path, mini_batch_size="10kb"))


def test_folders_give_keys_by_name_or_by_order(tmp_path: Path) -> None:
    for name in ("Store=1/Brand=x/f", "Store=1/Brand=y/f", "Store=1/Brand=x/g"):
        (tmp_path / "named" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "named" / name).touch()
        plain = tmp_path / "plain" / name.replace("Store=", "").replace("Brand=", "")
        plain.parent.mkdir(parents=True, exist_ok=True)
        plain.touch()
    for kind in ("named", "plain"):
        work = data.load(read(tmp_path / kind, partition_keys="Store,Brand"))
        assert [batch.key for batch in work.batches] == [
            {"Store": "1", "Brand": "x"},
            {"Store": "1", "Brand": "y"},
        ]
        assert [len(batch.positions) for batch in work.batches] == [2, 1]
    with pytest.raises(DriverError, match="has no `partition_keys`"):
        data.load(read(tmp_path / "plain", partition_keys="A,B,C"))


def test_arguments_reach_the_script_with_what_azure_ml_adds() -> None:
    text = "--name 'a b' --allowed_failed_percent 30 --error_threshold 5 --append_row_dataframe_header True"
    found = read(program_arguments=text, partition_keys="Store", append_row_to="out.csv", error_threshold="9")
    assert found.arguments[:2] == ("--name", "a b")
    assert found.arguments[-2:] == ("--partition_keys", '["Store"]')
    assert "--output_action" in found.arguments
    assert found.arguments.count("--error_threshold") == 1
    assert (found.allowed_failed_percent, found.error_threshold, found.append_header) == (30, 5, True)
    with pytest.raises(DriverError, match="cannot be taken apart: no closing quotation"):
        read(program_arguments="--name 'a")
    with pytest.raises(DriverError, match="invalid int value: 'many'"):
        read(program_arguments="--error_threshold many")


def test_the_stricter_of_two_thresholds_counts() -> None:
    assert read(program_arguments="--error_threshold 5").error_threshold == 5
    assert read(error_threshold="3", program_arguments="--error_threshold 5").error_threshold == 3
    found = read(mini_batch_error_threshold="4", program_arguments="--allowed_failed_count 1")
    assert found.mini_batch_error_threshold == 1


def test_thresholds_are_passed_only_when_exceeded() -> None:
    tally = Tally(batches=10, items=100)
    tally.succeed(0, 10, 8, None)
    tally.fail(10)
    assert str(tally) == (
        "10 mini-batches: 1 succeeded, 1 failed, 0 tried again; 100 items: 8 processed, 12 failed"
    )
    assert tally.exceeded(read()) is None
    assert tally.exceeded(read(error_threshold="12")) is None
    assert tally.exceeded(read(error_threshold="11")) == "12 items failed, and `error_threshold` is 11"
    assert tally.exceeded(read(mini_batch_error_threshold="1")) is None
    assert tally.exceeded(read(mini_batch_error_threshold="0")) is not None
    assert tally.exceeded(read(program_arguments="--allowed_failed_percent 10")) is None
    assert tally.exceeded(read(program_arguments="--allowed_failed_percent 9.9")) is not None


@given(st.permutations(list(range(6))))
def test_rows_are_appended_in_the_order_of_mini_batches(order: list[int]) -> None:
    tally = Tally(batches=6, items=6)
    for index in order:
        tally.succeed(index, 1, 1, (f"{index}\n", "h\n"))
    assert tally.aggregated(header=False) == "0\n1\n2\n3\n4\n5\n"
    assert tally.aggregated(header=True).startswith("h\n0\n")


def write(folder: Path, definition: str, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "MLTable").write_text(definition, encoding="utf-8")
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_csv", ".csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_an_mltable_without_a_reader_is_a_list_of_files(tmp_path: Path) -> None:
    folder = write(
        tmp_path, "paths:\n  - file: ./a.csv\n  - folder: ./b\n", a_csv="", b__x_csv="", b__y_csv=""
    )
    work = data.load(read(folder, input_type="mltable", mini_batch_size="2"))
    assert [len(batch.positions) for batch in work.batches] == [2, 1]
    assert work.noun == "files"


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("paths:\n  - file: ./missing.csv\n", "`./missing.csv` in `MLTable` does not exist"),
        ("paths:\n  - file: https://x/y.csv\n", "`https://x/y.csv` in `MLTable` is not on this machine"),
        ("paths: []\n", "`MLTable` has no `paths`"),
        ("paths: [\n", "is not YAML"),
        ("paths:\n  - file: ./a.csv\ntransformations:\n  - read_delta_lake: {}\n", "`read_delta_lake` in"),
        (
            "paths:\n  - file: ./a.csv\ntransformations:\n  - take: 1\n",
            "`MLTable` begins with `take`",
        ),
    ],
)
def test_what_an_mltable_cannot_mean_here_is_said(tmp_path: Path, definition: str, message: str) -> None:
    if "read_" in definition:
        pytest.importorskip("pandas")
    folder = write(tmp_path, definition, a_csv="x\n1\n")
    with pytest.raises(DriverError) as error:
        data.load(read(folder, input_type="mltable"))
    assert message in str(error.value)


TABLE = """\
paths: [{pattern: "./**/*.csv"}]
transformations:
  - read_delimited: {delimiter: ",", encoding: ascii, include_path_column: true}
  - extract_columns_from_partition_format: {partition_format: "{Store}/{Brand}/{file_name}.{extension}"}
  - drop_columns: [Path, file_name, extension]
"""


def test_a_table_is_read_as_its_transformations_say(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    folder = write(tmp_path, TABLE, **{"1__x__p_csv": "n,m\n1,2\n3,4\n", "2__x__p_csv": "n,m\n5,6\n"})
    frame = mltable.read_frame(mltable.read_table(folder))
    assert frame.to_dict("list") == {
        "n": [1, 3, 5],
        "m": [2, 4, 6],
        "Store": ["1", "1", "2"],
        "Brand": ["x"] * 3,
    }
    work = data.load(read(folder, input_type="mltable", partition_keys="Store,Brand"))
    assert [batch.key for batch in work.batches] == [
        {"Store": "1", "Brand": "x"},
        {"Store": "2", "Brand": "x"},
    ]
    assert work.content(work.batches[1]).to_dict("list")["n"] == [5]
    with pytest.raises(DriverError, match="names `Shop`, but the columns are `n`, `m`, `Store`, `Brand`"):
        data.load(read(folder, input_type="mltable", partition_keys="Shop"))


def test_columns_are_converted_kept_taken_and_skipped(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    definition = (
        "paths: [{file: a.csv}]\ntransformations:\n  - read_delimited: {infer_column_types: false}\n"
        "  - convert_column_types: [{columns: [n], column_type: int},"
        " {columns: d, column_type: {datetime: {formats: ['%d.%m.%Y']}}}]\n"
        "  - keep_columns: [n, d]\n  - skip: 1\n  - take: 1\n"
    )
    folder = write(tmp_path, definition, a_csv="n,d,z\n1,01.02.2020,a\n2,03.04.2021,b\n3,05.06.2022,c\n")
    frame = mltable.read_frame(mltable.read_table(folder))
    assert list(frame.columns) == ["n", "d"]
    assert (frame["n"].tolist(), str(frame["d"][0].date())) == ([2], "2021-04-03")


JSON_LINES = "".join(f'{{"n": {n}, "zip": "00{n}", "old": "{("no", "yes")[n % 2]}"}}\n' for n in range(4))


def test_lines_of_json_are_filtered_typed_and_named_by_their_folder(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    definition = (
        "paths: [{folder: .}]\ntransformations:\n"
        "  - read_json_lines: {invalid_lines: drop}\n"
        "  - filter: 'col(\"n\") > 1'\n"
        "  - extract_columns_from_partition_format: {partition_format: '{shop}/{file_name}.jsonl'}\n"
        "  - convert_column_types: [{columns: zip, column_type: string},"
        " {columns: old, column_type: {boolean: {true_values: ['yes'], false_values: ['no']}}}]\n"
    )
    folder = write(tmp_path, definition, **{"07__a.jsonl": JSON_LINES + "none\n", "8__a.jsonl": JSON_LINES})
    frame = mltable.read_frame(mltable.read_table(folder))
    assert frame.to_dict("list") == {
        "n": [2, 3, 2, 3],
        "zip": ["002", "003", "002", "003"],
        "old": [False, True, False, True],
        "shop": ["07", "07", "8", "8"],
        "file_name": ["a"] * 4,
    }


def test_columns_with_gaps_keep_them_in_the_type_of_the_table(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    definition = (
        "paths: [{file: a.csv}]\ntransformations:\n  - read_delimited: {}\n"
        "  - convert_column_types: [{columns: i, column_type: int}, {columns: s, column_type: string},"
        " {columns: b, column_type: boolean}, {columns: f, column_type: float}]\n"
    )
    folder = write(tmp_path, definition, a_csv="i,s,b,f\n1,01,true,1\n,,,\n3,03,False,2\n")
    frame = mltable.read_frame(mltable.read_table(folder))
    assert frame["s"].tolist()[::2] == ["01", "03"]
    assert [str(frame[name].dtype) for name in "ibf"] == ["Int64", "boolean", "float64"]
    assert frame.isna().sum().tolist() == [1, 1, 1, 1]
    assert frame["b"].tolist()[::2] == [True, False]
    (folder / "a.csv").write_text("i,s,b,f\n1,1,maybe,1\n")
    with pytest.raises(DriverError, match="`read_delimited` of `MLTable` cannot be done"):
        mltable.read_frame(mltable.read_table(folder))


@pytest.mark.parametrize(
    ("header", "columns", "rows"),
    [
        ("all_files_same_headers", ["a", "b"], 2),
        ("from_first_file", ["a", "b"], 3),
        ("no_header", ["Column1", "Column2"], 4),
    ],
)
def test_headers_are_where_the_reader_says(
    tmp_path: Path, header: str, columns: list[str], rows: int
) -> None:
    pytest.importorskip("pandas")
    definition = "paths: [{file: x.csv}, {file: y.csv}]\ntransformations:\n"
    definition += f"  - read_delimited: {{header: {header}}}\n"
    folder = write(tmp_path, definition, x_csv="a,b\n1,2\n", y_csv="a,b\n3,4\n")
    frame = mltable.read_frame(mltable.read_table(folder))
    assert (list(frame.columns), len(frame)) == (columns, rows)


def test_a_table_is_parted_by_the_size_of_its_rows(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    text = "n\n" + "".join(f"{number:015}\n" for number in range(1000))  # 16 bytes a row
    folder = write(tmp_path, "paths: [{file: a.csv}]\ntransformations: [read_delimited]\n", a_csv=text)
    work = data.load(read(folder, input_type="mltable", mini_batch_size="1kb"))
    assert {len(batch.positions) for batch in work.batches[:-1]} == {63}
    assert work.items == 1000
