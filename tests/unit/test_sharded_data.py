"""What `check` says of local data is what `shard_data` does with it; the step's own code runs here."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from step_options import make_options

import worldsize
from worldsize.data import counts
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from wsshards.errors import UserError
from wsshards.manifest import read_manifest

SOURCE = Path(__file__).parents[2] / "components/shard_data/src"
SPEC = """\
name: flowers
compute:
  cpu: {{target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}}
steps:
  shard:
    uses: shard_data
    with: {}
"""
TABLE = "x,y,label\n" + "".join(f"{row},{row / 8},{row % 3}\n" for row in range(30))
LINES = "".join(json.dumps({"x": row, "y": row / 8, "label": row % 3}) + "\n" for row in range(30))
PRICES = "rooms,city,sold,garden,price\n" + "".join(
    f"{row % 7},{('Oslo', 'Rome', 'Paris')[row % 3]},2026-01-{row % 28 + 1:02},"
    f"{'true' if row % 2 else 'false'},{row * 1.25 + 0.1}\n"
    for row in range(60)
)
TAGS = "x,tags\n" + "".join(f"{row},{('red;blue', 'red', 'blue;green')[row % 3]}\n" for row in range(30))
PRICE = {"label": "price"}
LIST = '{"x": [1, 2], "label": 0}\n{"x": [3, 4], "label": 1}\n'

# By name: the files, the step's inputs, and the code and a part of the message, or nothing for right data.
CASES: dict[str, tuple[dict[str, str | bytes], dict[str, Any], tuple[str, str] | None]] = {
    "table": ({"a.csv": TABLE}, {}, None),
    "table with a mark, carriage returns and an empty line": (
        {"a.csv": "\ufeff" + TABLE.replace("\n", "\r\n") + "\r\n"},
        {},
        None,
    ),
    "table with a broken cell in a column that is left out": (
        {"a.csv": TABLE + "31,none,1\n"},
        {"features": "x"},
        None,
    ),
    "table of Latin-1 beside the columns": (
        {"a.csv": b"x,note,label\n" + b"1,-,a\n2,-,b\n1,-,b\n2,-,a\n" * 750 + b"3,\xe9,a\n"},
        {"features": "x"},
        None,
    ),
    "numbers with blanks, signs and exponents": (
        {"a.csv": "x,label\n" + " 1.5,a\n-2e-3,b\n1E5 ,a\n.5,b\n" * 3},
        {},
        None,
    ),
    "quoted": ({"a.csv": '"x","the, label"\n' + '"1","a ""b"""\n2,c\n' * 9}, {"label": "the, label"}, None),
    "fewer columns in the first file": (
        {"a.csv": TABLE, "b.csv": TABLE.replace("x,y,label", "more,x,label")},
        {"features": "x"},
        None,
    ),
    "lines": ({"a.jsonl": LINES}, {}, None),
    "lines with lists and blank lines": ({"a.jsonl": (LIST + "\n") * 9}, {}, None),
    "a note beside the data": ({"a.csv": TABLE, "README.md": "notes"}, {}, None),
    "text": ({"a.txt": "to be or not to be " * 99}, {}, None),
    "regression with categories, dates and booleans": ({"a.csv": PRICES}, PRICE, None),
    "several targets": ({"a.csv": PRICES}, {"label": "price,rooms", "task": "regression"}, None),
    "tags": ({"a.csv": TAGS}, {"label": "tags"}, None),
    "columns of 0 and 1": ({"a.csv": "x,a,b\n" + "1,0,1\n2,1,1\n" * 9}, {"label": "a,b"}, None),
    "empty cells filled": ({"a.csv": PRICES + ",,,,3.5\n"}, PRICE | {"missing": "fill"}, None),
    "labels missing, cells filled": ({"a.csv": PRICES + "1,Oslo,,,\n"}, PRICE | {"missing": "fill"}, None),
    "empty cells dropped": ({"a.csv": PRICES + ",,,,\n"}, PRICE | {"missing": "drop"}, None),
    "by group": ({"a.csv": PRICES}, PRICE | {"split_by": "city"}, None),
    "by time": (
        {"a.csv": PRICES},
        PRICE | {"validation_after": "2026-01-10", "test_after": "2026-01-20"},
        None,
    ),
    "as given": (
        {"train.csv": PRICES, "val/a.csv": PRICES, "test.csv": PRICES},
        PRICE | {"split": "given"},
        None,
    ),
    "codes as categories": (
        {"a.csv": PRICES},
        PRICE | {"column_types": "rooms=category,sold=category"},
        None,
    ),
    "ages": (
        {"a.csv": "x,age\n" + "".join(f"{row},{row % 40}\n" for row in range(80))},
        {"label": "age"},
        ("WS534", "label `age` has 40 distinct whole numbers in 80 rows"),
    ),
    "prices as classes": (
        {"a.csv": PRICES},
        PRICE | {"task": "classification"},
        ("WS534", "60 distinct numbers with fractions such as `0.1` in 60 rows, and `task` is `class"),
    ),
    "names as targets": (
        {"a.csv": PRICES},
        {"label": "city", "task": "regression"},
        ("WS534", "label `city` holds text such as `Oslo`, and `task` is `regression`"),
    ),
    "several columns of classes": (
        {"a.csv": PRICES},
        {"label": "city,rooms"},
        ("WS534", "label `city` holds text such as `Oslo`, and `label` names 2 columns"),
    ),
    "numbers as marks": (
        {"a.csv": PRICES},
        {"label": "rooms,price", "task": "multi_label"},
        ("WS534", "label `rooms` has 7 distinct whole numbers in 60 rows, not just 0 and 1"),
    ),
    "text for a target further down": (
        {"a.csv": PRICES + "1,Oslo,2026-01-01,true,cheap\n"},
        PRICE | {"task": "regression"},
        ("WS533", "`cheap`"),
    ),
    "no such target": ({"a.csv": PRICES}, {"label": "prize"}, ("WS532", "no label column `prize`")),
    "date that is none": (
        {"a.csv": PRICES + "1,Oslo,2026-02-30,true,3.5\n"},
        PRICE,
        ("WS533", "line 62 of `data/a.csv` has `2026-02-30` in column `sold`, which is not a date"),
    ),
    "neither true nor false": (
        {"a.csv": PRICES + "1,Oslo,2026-02-03,maybe,3.5\n"},
        PRICE,
        ("WS533", "has `maybe` in column `garden`, which is neither true nor false"),
    ),
    "category missing": (
        {"a.csv": PRICES + "1,,2026-02-03,true,3.5\n"},
        PRICE,
        ("WS533", "line 62 of `data/a.csv` has no value in column `city`"),
    ),
    "target missing": (
        {"a.csv": PRICES + "1,Oslo,2026-02-03,true,\n"},
        PRICE,
        ("WS533", "line 62 of `data/a.csv` has no label in column `price`"),
    ),
    "names of rows": (
        {"a.csv": "name,label\n" + "".join(f"n{row},{row % 2}\n" for row in range(40))},
        {},
        ("WS533", "column `name` of `data/a.csv` has another text in nearly every row: 40 in 40 rows"),
    ),
    "group that is no column": (
        {"a.csv": PRICES},
        PRICE | {"split_by": "town"},
        ("WS532", "`data/a.csv` has no split column `town`"),
    ),
    "time that is no column": (
        {"a.csv": PRICES},
        PRICE | {"split_time": "when", "test_after": "2026-01-10"},
        ("WS532", "no split column `when`"),
    ),
    "bound that is no date": (
        {"a.csv": PRICES},
        PRICE | {"validation_after": "January"},
        ("WS532", "`validation_after` is `January`, and column `sold` holds dates"),
    ),
    "bounds in the wrong order": (
        {"a.csv": PRICES},
        PRICE | {"validation_after": "2026-01-20", "test_after": "2026-01-10"},
        ("WS532", "not after `validation_after`"),
    ),
    "time without dates": (
        {"a.csv": TABLE},
        {"validation_after": "2026-01-10"},
        ("WS532", "the data has 0 columns of dates"),
    ),
    "label as a feature": (
        {"a.csv": PRICES},
        PRICE | {"features": "rooms,price"},
        ("WS532", "column `price` is both the label and a feature"),
    ),
    "kind of no column": (
        {"a.csv": PRICES},
        PRICE | {"column_types": "zip=category"},
        ("WS532", "`column_types` names `zip`"),
    ),
    "given without training": (
        {"test.csv": PRICES},
        PRICE | {"split": "given"},
        ("WS530", "has no training files"),
    ),
    "given without a part": (
        {"train.csv": PRICES, "more.csv": PRICES},
        PRICE | {"split": "given"},
        ("WS530", "`more.csv` is named for none of"),
    ),
    "nothing left to train": (
        {"a.csv": PRICES},
        PRICE | {"validation_fraction": 0.6, "test_fraction": 0.5},
        ("WS614", "add up to 1.1"),
    ),
    "all rows later": (
        {"a.csv": PRICES},
        PRICE | {"validation_after": "2025-01-01"},
        ("WS537", "has 0 training rows"),
    ),
    "semicolons": ({"a.csv": TABLE.replace(",", ";")}, {}, ("WS531", "semicolons")),
    "UTF-16": ({"a.csv": TABLE.encode("utf-16")}, {}, ("WS531", "UTF-16")),
    "zip": ({"a.csv": b"PK\x03\x04" + bytes(99)}, {}, ("WS531", "zip")),
    "pointer": (
        {"a.csv": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"},
        {},
        ("WS531", "Git LFS"),
    ),
    "label twice": (
        {"a.csv": "label,x,label\n" + "0,1,1\n" * 9},
        {},
        ("WS532", "two columns called `label`"),
    ),
    "label elsewhere": ({"a.csv": TABLE}, {"label": "kind"}, ("WS532", "no label column `kind`")),
    "label not UTF-8 at once": (
        {"a.csv": b"x,label\n1,a\n2,\xe9\n"},
        {},
        ("WS533", "line 3 of `data/a.csv` has a label in column `label` that is not UTF-8"),
    ),
    "cell empty": (
        {"a.csv": TABLE + "1,,2\n"},
        {},
        ("WS533", "line 32 of `data/a.csv` has no value in column `y`"),
    ),
    "thousands": ({"a.csv": TABLE + '"1,000",2,2\n'}, {}, ("WS533", "`1,000`")),
    "ragged": ({"a.csv": TABLE + "1,2\n"}, {}, ("WS533", "line 32 of `data/a.csv` has 2 values")),
    "line broken": ({"a.jsonl": LINES + '{"x": 1\n'}, {}, ("WS533", "row 31 of `data/a.jsonl` is not JSON")),
    "line with null": (
        {"a.jsonl": LINES + '{"x": null, "y": 1, "label": 0}\n'},
        {},
        ("WS533", "no value in column `x`"),
    ),
    "line with a shorter list": ({"a.jsonl": LIST + '{"x": [1], "label": 0}\n'}, {}, ("WS533", "row 3 of")),
    "line with a fraction for a label": (
        {"a.jsonl": LINES.replace('"label": ', '"label": 0.')},
        {},
        ("WS534", "has 3 distinct numbers with fractions in 30 rows, such as `0.1`"),
    ),
    "one class": ({"a.csv": "x,label\n" + "1,a\n" * 9}, {}, ("WS534", "all 9 rows")),
    "header only": ({"a.csv": "x,label\n"}, {}, ("WS537", "has no rows")),
    "nothing": ({"a.csv": ""}, {}, ("WS531", "is empty")),
    "fewer rows than shards": ({"a.csv": TABLE}, {"shard_count": 25}, ("WS537", "24 training rows")),
    "text shorter than a window": ({"a.txt": "to be"}, {}, ("WS537", "has no rows")),
    "source of another folder": ({"a.csv": TABLE}, {"source": "../a.csv"}, ("WS530", "leads out")),
    "two formats": ({"a.csv": TABLE, "a.jsonl": LINES}, {}, ("WS531", "several formats")),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Diagnostic]]:
    """What one check says of each case; its folder has the name of the case."""
    root = tmp_path_factory.mktemp("cases")
    for name, (files, inputs, _) in CASES.items():
        for file, content in files.items():
            path = root / name / "data" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        given = {"data": "./data", "sequence_length": 16, "shard_count": 1, **inputs}
        (root / name / "spec.yml").write_text(SPEC.format(json.dumps(given)))
    found: dict[str, list[Diagnostic]] = {name: [] for name in CASES}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for each in worldsize.check(".").diagnostics:
            found[Path(each.span.path).parent.name].append(each)
    return found


@pytest.fixture(scope="module")
def run_step(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Runs the step's own code, and returns what it says where it refuses the data."""
    before = set(sys.modules)
    sys.path.insert(0, str(SOURCE))
    shard = importlib.import_module("shard")

    def run(folder: Path, inputs: dict[str, Any]) -> str:
        options = {
            "source": ".",
            "label": "label",
            "features": "",
            "format": "auto",
            "shard_count": 1,
            "task": "auto",
            "missing": "refuse",
            "column_types": "",
            "test_fraction": 0.0,
            "split": "hash",
            "split_by": "",
            "split_time": "",
            "validation_after": "",
            "test_after": "",
            **inputs,
        }
        numbers = {"sequence_length": 16, "validation_fraction": 0.2, "seed": 0, "memory_limit_mib": 64}
        numbers |= {name: inputs[name] for name in numbers if name in inputs}
        options = {name: value for name, value in options.items() if name not in numbers}
        places = {"data": str(folder / "data"), "shards": str(folder / "out")}
        try:
            shard.shard(make_options(SOURCE.parent / "component.yml", **places, **numbers, **options))
        except UserError as error:
            return error.message
        return ""

    yield run
    sys.path.remove(str(SOURCE))
    for name in set(sys.modules) - before:
        if str(SOURCE) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_check_says_what_the_step_does(
    right: bool,
    said: dict[str, list[Diagnostic]],
    run_step: Callable[..., str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = next(tmp_path_factory.getbasetemp().glob("cases*"))
    for name, (_, inputs, expected) in CASES.items():
        if (expected is None) != right:
            continue
        refused, messages = run_step(root / name, inputs), [each.message for each in said[name]]
        if expected is None:
            assert (name, messages, refused) == (name, [], "")
            continue
        assert (name, [each.code for each in said[name]]) == (name, [expected[0]])
        assert expected[1] in messages[0]
        assert refused, name


def test_a_fault_far_behind_is_left_to_the_run(tmp_path: Path, run_step: Callable[..., str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("x,label\n" + "1,a\n2,b\n1,b\n2,a\n" * 3000 + "3,\n")
    (tmp_path / "spec.yml").write_text(SPEC.format("{data: ./data}"))
    assert not worldsize.check(str(tmp_path / "spec.yml")).diagnostics
    assert "line 12002 of `a.csv` has no label" in run_step(tmp_path, {})


_COPIES = {
    "numbers with blanks, signs and exponents",
    "columns of 0 and 1",
    "lines with lists and blank lines",
    "quoted",
    "table of Latin-1 beside the columns",
}


def test_training_rows_are_planned_as_the_step_writes_them(
    run_step: Callable[..., str], tmp_path_factory: pytest.TempPathFactory, said: dict[str, list[Diagnostic]]
) -> None:
    root = next(tmp_path_factory.getbasetemp().glob("cases*"))
    defaults = {
        "source": ".",
        "format": "auto",
        "label": "label",
        "sequence_length": 16,
        "validation_fraction": 0.2,
    }
    for name, (_, inputs, expected) in CASES.items():
        if expected is not None or name in _COPIES:  # copies on the boundary may go to either side
            continue
        assert run_step(root / name, inputs) == ""
        manifest = read_manifest(root / name / "out")
        counted = counts.count_split(root / name / "data", {**defaults, **inputs})
        assert counted is not None, name
        task = counted.task or manifest.task  # unknown of text
        assert (name, counted.rows, task) == (name, manifest.train.rows, manifest.task)
        if counted.outputs and manifest.label is not None:
            assert (name, counted.outputs) == (name, manifest.label.outputs)
