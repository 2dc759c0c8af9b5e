"""MLTables and saved data sets, right and wrong: their files, and what is said of them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

Files = dict[str, str | bytes]
PLAIN = "x,y,label\n" + "".join(f"{n},{n % 3},{'ab'[n % 2]}\n" for n in range(20))
SEMICOLONS = PLAIN.replace(",", ";")
LINES = "".join(json.dumps({"x": n, "y": n % 3, "label": "ab"[n % 2]}) + "\n" for n in range(20))
COMMAS = "[{read_delimited: {delimiter: ','}}]"


def _table(steps: str = COMMAS, paths: str = "[{file: ./a.csv}]", **files: str | bytes) -> Files:
    named = {name.replace("__", "/").replace("_", "."): content for name, content in files.items()}
    return {"MLTable": f"type: mltable\npaths: {paths}\ntransformations: {steps}\n", **named}


def _steps(*steps: str) -> str:
    return f"[{{read_delimited: {{delimiter: ','}}}}, {', '.join(steps)}]"


def _parquet(label: list[Any], **columns: list[Any]) -> bytes:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    target = io.BytesIO()
    parquet.write_table(
        pa.table({"x": [float(n) for n in range(len(label))], **columns, "label": label}), target
    )
    return target.getvalue()


# By name: the files, the step's inputs, and the rows of each part.
RIGHT: dict[str, tuple[Files, dict[str, Any], list[int]]] = {
    "plain": (_table(a_csv=PLAIN), {}, [16, 4, 0]),
    "without transformations": (_table("[]", a_csv=PLAIN), {}, [16, 4, 0]),
    "semicolons": (_table("[{read_delimited: {delimiter: ';'}}]", a_csv=SEMICOLONS), {}, [16, 4, 0]),
    "tabs in Latin-1": (
        _table(
            '[{read_delimited: {delimiter: "\\t", encoding: latin1}}]',
            a_csv=PLAIN.replace(",", "\t").replace("a", "\xe9").encode("latin-1"),
        ),
        {"label": "l\xe9bel"},
        [16, 4, 0],
    ),
    "no header": (
        _table("[{read_delimited: {header: no_header}}]", a_csv=PLAIN.split("\n", 1)[1]),
        {"label": "Column3"},
        [16, 4, 0],
    ),
    "header of the first file": (
        _table(
            "[{read_delimited: {header: from_first_file}}]",
            "[{pattern: './*.csv'}]",
            a_csv=PLAIN,
            b_csv=PLAIN.split("\n", 1)[1],
        ),
        {"validation_fraction": 0.0},
        [40, 0, 0],
    ),
    "rows and columns": (
        _table(_steps("{skip: 2}", "{take: 10}", "{drop_columns: y}"), a_csv=PLAIN),
        {"validation_fraction": 0.0},
        [10, 0, 0],
    ),
    "columns kept": (_table(_steps("{keep_columns: [x, label]}"), a_csv=PLAIN), {}, [16, 4, 0]),
    "filtered": (
        _table(_steps("""{filter: 'col("x") >= 10 and col("label") == "a"'}"""), a_csv=PLAIN),
        {"validation_fraction": 0.0, "task": "classification", "label": "y"},
        [5, 0, 0],
    ),
    "types": (
        _table(
            _steps(
                "{convert_column_types: [{columns: y, column_type: string}, {columns: d, column_type:"
                " {datetime: {formats: ['%d/%m/%Y']}}}, {columns: b, column_type: {boolean: {true_values:"
                " ['yes'], false_values: ['no']}}}]}"
            ),
            a_csv="y,d,b,label\n"
            + "".join(f"{n % 3},{n + 1:02}/02/2026,{'yes' if n % 2 else 'no'},{n % 2}\n" for n in range(20)),
        ),
        {"split_time": "d", "validation_after": "2026-02-11"},
        [10, 10, 0],
    ),
    "JSON lines": (
        _table("[read_json_lines, {take: 10}]", "[{file: a.jsonl}]", a_jsonl=LINES),
        {"validation_fraction": 0.0},
        [10, 0, 0],
    ),
    "invalid lines dropped": (
        _table("[{read_json_lines: {invalid_lines: drop}}]", "[{file: a.jsonl}]", a_jsonl=LINES + "no\n"),
        {},
        [16, 4, 0],
    ),
    "Parquet": (
        _table("[read_parquet]", "[{file: a.parquet}]", a_parquet=_parquet([n % 2 for n in range(20)])),
        {},
        [16, 4, 0],
    ),
    "rows of Parquet": (
        _table(
            """[read_parquet, {filter: 'col("x") < 10'}, {drop_columns: z}]""",
            "[{file: a.parquet}]",
            a_parquet=_parquet([n % 2 for n in range(20)], z=[str(n) for n in range(20)]),
        ),
        {},
        [8, 2, 0],
    ),
    "Parquet of numbers": ({"a.parquet": _parquet([n / 3 for n in range(40)])}, {}, [32, 8, 0]),
    "columns of the path": (
        _table(
            "[{read_delimited: {include_path_column: true}}, {extract_columns_from_partition_format:"
            " {partition_format: '{label}/{file_name}.{extension}'}},"
            " {drop_columns: [Path, file_name, extension]}]",
            "[{pattern: '**/*.csv'}]",
            a__x_csv="x,y\n" + "".join(f"{n},{n % 3}\n" for n in range(20)),
            b__x_csv="x,y\n" + "".join(f"{n},{n % 4}\n" for n in range(20)),
        ),
        {"validation_fraction": 0.0, "task": "classification"},
        [40, 0, 0],
    ),
    "columns of the path of Parquet": (
        _table(
            "[read_parquet, {extract_columns_from_partition_format:"
            " {partition_format: '{kind}/{file_name}.parquet'}}, {drop_columns: file_name}]",
            "[{folder: ./a}, {folder: ./b}]",
            a__x_parquet=_parquet([n % 2 for n in range(20)]),
            b__x_parquet=_parquet([n % 2 for n in range(20)]),
        ),
        {"validation_fraction": 0.0},
        [40, 0, 0],
    ),
    "folders of parts": (
        _table(
            COMMAS,
            "[{folder: ./train}, {pattern: 'test/**/*.csv'}]",
            train__a_csv=PLAIN,
            test__b__c_csv=PLAIN,
        ),
        {"split": "given", "validation_fraction": 0.0},
        [20, 0, 20],
    ),
}
FAULTY: dict[str, tuple[Files, dict[str, Any], str, str]] = {
    "no YAML": ({"MLTable": "paths: [", "a.csv": PLAIN}, {}, "WS539", "`MLTable` is not YAML at line "),
    "a list": ({"MLTable": "- a", "a.csv": PLAIN}, {}, "WS539", "`MLTable` is not a mapping"),
    "no paths": ({"MLTable": "type: mltable", "a.csv": PLAIN}, {}, "WS539", "`MLTable` has no `paths`"),
    "path missing": (_table(a_txt=PLAIN), {}, "WS539", "`./a.csv` in `MLTable` does not exist"),
    "pattern without files": (
        _table(COMMAS, "[{pattern: './*.csv'}]", a_txt=PLAIN),
        {},
        "WS539",
        "`./*.csv` in `MLTable` matches no file",
    ),
    "path that is none": (
        _table(COMMAS, "[{files: a.csv}]", a_csv=PLAIN),
        {},
        "WS539",
        "under `paths` of `MLTable` is not a file, a folder or a pattern",
    ),
    "path leads out": (
        _table(COMMAS, "[{file: ../spec.yml}]", a_csv=PLAIN),
        {},
        "WS539",
        "`../spec.yml` in `MLTable` leads out of its folder",
    ),
    "transformation unknown": (
        _table("[{read_delimted: {}}]", a_csv=PLAIN),
        {},
        "WS539",
        "`MLTable` has the unknown transformation `read_delimted`",
    ),
    "transformation not supported": (
        _table(_steps("{take_random_sample: {probability: 0.1}}"), a_csv=PLAIN),
        {},
        "WS539",
        "`take_random_sample` in `MLTable` is not supported",
    ),
    "setting unknown": (
        _table("[{read_delimited: {delimeter: ';'}}]", a_csv=PLAIN),
        {},
        "WS539",
        "`read_delimited` of `MLTable` has the unknown setting `delimeter`",
    ),
    "encoding unknown": (
        _table("[{read_delimited: {encoding: ebcdic}}]", a_csv=PLAIN),
        {},
        "WS539",
        "`encoding` of `read_delimited` in `MLTable` is `ebcdic`",
    ),
    "another delimiter": (
        _table("[{read_delimited: {delimiter: ';'}}]", a_csv=SEMICOLONS + "1,2,a\n"),
        {},
        "WS539",
        "row 21 of `a.csv` has 1 values, and its header 3",
    ),
    "column kept is missing": (
        _table(_steps("{keep_columns: [x, lable]}"), a_csv=PLAIN),
        {},
        "WS539",
        "`keep_columns` in `MLTable` names `lable`, which is no column of the table",
    ),
    "filter that is code": (
        _table(_steps("{filter: '__import__(\"os\")'}"), a_csv=PLAIN),
        {},
        "WS539",
        "which is not supported",
    ),
    "take that is no number": (
        _table(_steps("{take: many}"), a_csv=PLAIN),
        {},
        "WS539",
        "`take` in `MLTable`",
    ),
    "partition format with a date": (
        _table(
            _steps("{extract_columns_from_partition_format: {partition_format: '{day:yyyy}.csv'}}"),
            a_csv=PLAIN,
        ),
        {},
        "WS539",
        "`partition_format` in `MLTable` is `{day:yyyy}.csv`, and only plain names are read",
    ),
    "partition format that does not fit": (
        _table(
            _steps("{extract_columns_from_partition_format: {partition_format: '{a}/{b}.txt'}}"),
            a_csv=PLAIN,
        ),
        {},
        "WS539",
        "`/a.csv` does not fit the `partition_format` in `MLTable`",
    ),
    "type unknown": (
        _table(_steps("{convert_column_types: [{columns: x, column_type: complex}]}"), a_csv=PLAIN),
        {},
        "WS539",
        "`column_type` in `MLTable` is `complex`",
    ),
    "label dropped": (
        _table(_steps("{drop_columns: [label]}"), a_csv=PLAIN),
        {},
        "WS532",
        "has no label column `label`",
    ),
    "Parquet with a label that leaves the task open": (
        {"a.parquet": _parquet([n % 3 / 2 for n in range(30)])},
        {},
        "WS534",
        "label `label` has 3 distinct numbers with fractions in 30 rows",
    ),
    "Parquet of one class": (
        {"a.parquet": _parquet(["a"] * 30)},
        {},
        "WS534",
        "all 30 rows of `data` have the label `a`",
    ),
    "Parquet of texts for numbers": (
        {"a.parquet": _parquet(["a", "b"] * 10)},
        {"task": "regression"},
        "WS534",
        "label `label` holds text such as `a`, and `task` is `regression`",
    ),
    "empty file": (_table("[{read_delimited: {delimiter: ';'}}]", a_csv=""), {}, "WS539", "`a.csv` is empty"),
    "line that is no JSON": (
        _table("[read_json_lines, {take: 30}]", "[{file: a.jsonl}]", a_jsonl=LINES + "no\n"),
        {},
        "WS539",
        "line 21 of `a.jsonl` is not a JSON object",
    ),
    "saved data set without its file": (
        {
            "state.json": json.dumps({"_data_files": [{"filename": "data-0.arrow"}]}),
            "dataset_info.json": json.dumps({"features": {"label": {"dtype": "int64", "_type": "Value"}}}),
        },
        {},
        "WS530",
        "`data` lacks its file `data-0.arrow`",
    ),
    "saved data set that is damaged": (
        {
            "state.json": json.dumps({"_data_files": [{"filename": "data-0.arrow"}]}),
            "dataset_info.json": json.dumps({"features": {"label": {"dtype": "int64", "_type": "Value"}}}),
            "data-0.arrow": b"\xff\xff\xff\xffno",
        },
        {},
        "WS530",
        "cannot read `data/data-0.arrow`",
    ),
    "saved data set without a description": (
        {"state.json": "{", "dataset_info.json": "{}"},
        {},
        "WS530",
        "cannot read `data/state.json`",
    ),
    "split that is no part": (
        {
            "dataset_dict.json": json.dumps({"splits": ["train", "unsupervised"]}),
            "train/state.json": "{}",
            "train/dataset_info.json": "{}",
            "unsupervised/state.json": "{}",
            "unsupervised/dataset_info.json": "{}",
        },
        {},
        "WS530",
        "`data` has the split `unsupervised`, which is none of `train`",
    ),
    "address of no protocol": (
        {"a.csv": PLAIN},
        {"source": "gss://b/a", "data": None},
        "WS530",
        "unknown protocol `gss`",
    ),
    "address without a bucket": (
        {"a.csv": PLAIN},
        {"source": "s3:///a", "data": None},
        "WS530",
        "names no bucket",
    ),
    "address of a folder on the web": (
        {"a.csv": PLAIN},
        {"source": "https://example.com/d/", "data": None},
        "WS530",
        "a web server has no list",
    ),
    "address of the old protocol": (
        {"a.csv": PLAIN},
        {"source": "wasbs://c@a.blob.core.windows.net/x", "data": None},
        "WS530",
        "no library opens any more",
    ),
    "address beside data": (
        {"a.csv": PLAIN},
        {"source": "https://example.com/a.csv"},
        "WS530",
        "`data` is bound too",
    ),
}
