"""What `check` says of local data is what `shard_data` does with it; the step's own code runs here."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import worldsize
from worldsize.diagnostics.diagnostic import Diagnostic
from wsshards.errors import UserError

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
        {"a.csv": b"x,note,label\n" + b"1,-,a\n2,-,b\n" * 1500 + b"3,\xe9,a\n"},
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
    "semicolons": ({"a.csv": TABLE.replace(",", ";")}, {}, ("WS531", "semicolons")),
    "UTF-16": ({"a.csv": TABLE.encode("utf-16")}, {}, ("WS531", "UTF-16")),
    "zip": ({"a.csv": b"PK\x03\x04" + bytes(99)}, {}, ("WS531", "zip")),
    "pointer": (
        {"a.csv": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"},
        {},
        ("WS538", "Git LFS"),
    ),
    "label twice": (
        {"a.csv": "label,x,label\n" + "0,1,1\n" * 9},
        {},
        ("WS532", "two columns called `label`"),
    ),
    "label elsewhere": ({"a.csv": TABLE}, {"label": "kind"}, ("WS532", "no label column `kind`")),
    "label not UTF-8 at once": ({"a.csv": b"x,label\n1,a\n2,\xe9\n"}, {}, ("WS531", "utf-8")),
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
        ("WS534", "`0.1`, which is not a class"),
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
        places = {"data": str(folder / "data"), "shards": str(folder / "out")}
        try:
            shard.shard(argparse.Namespace(**places, **numbers, **options))
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
    (tmp_path / "data" / "a.csv").write_text("x,label\n" + "1,a\n2,b\n" * 6000 + "3,\n")
    (tmp_path / "spec.yml").write_text(SPEC.format("{data: ./data}"))
    assert not worldsize.check(str(tmp_path / "spec.yml")).diagnostics
    assert "line 12002 of `a.csv` has no label" in run_step(tmp_path, {})
