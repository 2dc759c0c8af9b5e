"""Pictures and texts: what `check` says of local data is what `shard_data` does with it."""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from step_options import make_options

import worldsize
from worldsize.data import counts
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from wsshards import terms
from wsshards.errors import UserError
from wsshards.manifest import read_manifest

SOURCE = Path(__file__).parents[2] / "components/shard_data/src"
SPEC = """\
name: media
compute:
  cpu: {{target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}}
steps:
  shard:
    uses: shard_data
    with: {}
"""


def _picture(mode: str = "RGB", size: tuple[int, int] = (20, 16), form: str = "PNG") -> bytes:
    target = io.BytesIO()
    Image.new(mode, size).save(target, form)
    return target.getvalue()


PNG = _picture()
ROSES = {f"rose/{n}.png": PNG for n in range(5)} | {f"iris/{n}.png": PNG for n in range(5)}
FLAT = {f"{n}.png": PNG for n in range(6)}
ROWS = "".join(f"{n}.png,{n % 2}\n" for n in range(6))
LINES = "".join(json.dumps({"body": f"text {n}", "label": n % 2}) + "\n" for n in range(20))
TEXTS = {f"{c}/{n}.txt": f"{c} {n}" for c in "ab" for n in range(5)}
CORPUS = {f"{n}.txt": f"document {n} says this\n" * 40 for n in range(12)}
JSONL = {"a.jsonl": LINES}
PARTED = {f"{part}/{c}/{n}.png": PNG for part in ("train", "val", "test") for c in "ab" for n in range(3)}
LISTED = "".join(f"{n}.png,{n % 2},{'train' if n < 2 else 'val' if n < 4 else 'test'}\n" for n in range(6))
PLANTS = "".join(f"{n}.png,{n % 2},{n // 2}\n" for n in range(6))
DAYS = "".join(f"{n}.png,{n % 2},2026-02-0{n + 1}\n" for n in range(6))
STAMPED = "".join(
    json.dumps({"body": f"t {n}", "label": n % 2, "who": n // 4, "day": f"2026-01-{n + 1:02}"}) + "\n"
    for n in range(20)
)
PARTED_TEXTS = {f"{part}/{name}": text for part in ("train", "validation") for name, text in TEXTS.items()}
MIXED = {
    "rose/0.jpg": _picture("L", (30, 40), "JPEG"),
    "rose/1.png": _picture("RGBA"),
    "iris/a.gif": _picture("P", (9, 9), "GIF"),
}
DEEP = {"iris/b.png": _picture("I;16"), "iris/c.jpg": _picture("CMYK", (50, 20), "JPEG")}

# By name: the files, the step's inputs, and the code and a part of the message, or nothing for right data.
CASES: dict[str, tuple[dict[str, str | bytes], dict[str, Any], tuple[str, str] | None]] = {
    "pictures of mixed sizes and modes": ({**MIXED, **DEEP}, {"validation_fraction": 0}, None),
    "broken picture left out": ({**ROSES, "rose/x.png": b"no"}, {"broken_images": "skip"}, None),
    "labels in a CSV": ({**FLAT, "labels.csv": "file,kind\n" + ROWS}, {}, None),
    "labels by stem": (
        {**FLAT, "y.csv": "id,a\n" + ROWS.replace(".png", "")},
        {"labels": "y.csv", "label": "a"},
        None,
    ),
    "texts with labels": (JSONL, {"text": "body"}, None),
    "texts without labels": (JSONL, {"text": "body", "task": "language_model"}, None),
    "text folders": (TEXTS, {"task": "classification"}, None),
    "picture that is text": (
        {**ROSES, "rose/x.png": "not one"},
        {},
        ("WS536", "`data/rose/x.png`: it is not a picture"),
    ),
    "picture without bytes": ({**ROSES, "rose/x.png": b""}, {}, ("WS536", "`data/rose/x.png`: it is empty")),
    "half a picture": ({**ROSES, "rose/x.png": PNG[:40]}, {}, ("WS536", "cannot read `data/rose/x.png`")),
    "picture outside": ({**ROSES, "x.png": PNG}, {}, ("WS536", "picture `data/x.png` is in no class folder")),
    "label file missing": (FLAT, {"labels": "kinds.csv"}, ("WS532", "no file `kinds.csv` of labels")),
    "label file outside": (FLAT, {"labels": "../a.csv"}, ("WS532", "lead out of the data")),
    "label column missing": (
        {**FLAT, "labels.csv": "file,kind,age\n" + ROWS.replace("\n", ",1\n")},
        {"label": "kin"},
        ("WS532", "`data/labels.csv` has no label column `kin`"),
    ),
    "label is the file": (
        {**FLAT, "labels.csv": "file,kind\n" + ROWS},
        {"label": "file"},
        ("WS532", "has the file names, and `label` names it too"),
    ),
    "picture of a label missing": (
        {**FLAT, "labels.csv": "file,kind\n" + ROWS + "9.png,1\n8.png,0\n"},
        {},
        ("WS533", "line 8 of `data/labels.csv` names the picture `9.png`"),
    ),
    "label empty": (
        {**FLAT, "labels.csv": "file,kind\n" + ROWS[:-2] + "\n"},
        {},
        ("WS533", "line 7 of `data/labels.csv` has no label in column `kind`"),
    ),
    "label left out": ({**FLAT, "labels.csv": "file,kind\n" + ROWS + "5.png,\n"}, {"missing": "fill"}, None),
    "two labels of a picture": (
        {**FLAT, "labels.csv": "file,kind\n" + ROWS + "0.png,1\n"},
        {},
        ("WS533", "gives picture `0.png` another label than a line before"),
    ),
    "one class": (
        {**FLAT, "labels.csv": "file,kind\n" + ROWS.replace(",0", ",1")},
        {},
        ("WS537", "have the label `1`"),
    ),
    "targets in a CSV": (
        {**FLAT, "labels.csv": "file,a,b\n" + "".join(f"{n}.png,{n}.5,{n}\n" for n in range(6))},
        {"label": "a,b"},
        None,
    ),
    "several labels in a CSV": (
        {**FLAT, "labels.csv": "file,kind\n" + ROWS.replace(",1", ",1;0")},
        {},
        None,
    ),
    "label of a picture missing, left out": (
        {**FLAT, "labels.csv": "file,kind\n" + ROWS[:-2] + "\n"},
        {"missing": "drop"},
        None,
    ),
    "labels that leave the task open": (
        {**FLAT, "labels.csv": "file,kind\n" + ROWS.replace(",1", ",1.5")},
        {},
        ("WS534", "label `kind` has 2 distinct numbers with fractions in 6 rows, such as `1.5`"),
    ),
    "classes that are no numbers": (
        {**FLAT, "labels.csv": "file,kind\n" + ROWS.replace(",1", ",b")},
        {"task": "regression"},
        ("WS534", "label `kind` holds text such as `b`, and `task` is `regression`"),
    ),
    "folders that are no numbers": (
        ROSES,
        {"task": "regression"},
        ("WS534", "`task` is `regression`, and `data` is data for `classification`"),
    ),
    "pictures by group": (
        ROSES,
        {"split_by": "rose"},
        ("WS532", "`split_by` divides the rows of tables, and `data` is read as images"),
    ),
    "files of text by group": (
        TEXTS,
        {"task": "classification", "split_by": "label"},
        ("WS532", "`split_by` divides the rows of tables, and `data` is read as text"),
    ),
    "texts by a column that is missing": (
        JSONL,
        {"text": "body", "split_by": "author"},
        ("WS532", "`data/a.jsonl` has no split column `author`"),
    ),
    "pictures by a column that is missing": (
        {**FLAT, "labels.csv": "file,label\n" + ROWS},
        {"split_by": "plant"},
        ("WS532", "`data/labels.csv` has no split column `plant`"),
    ),
    "pictures of no part": (
        {**PARTED, "other/a/9.png": PNG},
        {"split": "given"},
        ("WS530", "`split` is `given`, and `other/a/9.png` is named for none of `train`"),
    ),
    "pictures of no class": (
        {**PARTED, "val/9.png": PNG},
        {"split": "given"},
        ("WS536", "picture `data/val/9.png` is in no class folder of its part, such as `train/cat`"),
    ),
    "part that is none": (
        {**FLAT, "labels.csv": "file,label,split\n" + LISTED.replace("val", "holdout")},
        {"split": "given"},
        ("WS533", "line 4 of `data/labels.csv` has `holdout` in column `split`"),
    ),
    "texts by a time that is none": (
        {"a.jsonl": STAMPED.replace("2026-01-03", "soon")},
        {"text": "body", "split_time": "day", "validation_after": "2026-01-08"},
        ("WS533", "row 3 of `data/a.jsonl` has no date in column `day`"),
    ),
    "texts that are to be numbers": (
        JSONL,
        {"text": "body", "task": "regression"},
        ("WS534", "`task` is `regression`, and `data` is data for `classification`"),
    ),
    "numbers for texts": (
        {"a.jsonl": "".join(json.dumps({"body": f"t {n}", "label": n / 8}) + "\n" for n in range(40))},
        {"text": "body"},
        ("WS534", "label `label` has 40 distinct numbers with fractions in 40 rows, and texts are for"),
    ),
    "text of a row missing, left out": (
        {"a.jsonl": LINES + '{"body": "", "label": 1}\n{"body": "a"}\n'},
        {"text": "body", "missing": "drop"},
        None,
    ),
    "label of a text missing, left out": (
        {"a.jsonl": LINES + '{"body": "a"}\n'},
        {"text": "body", "missing": "fill"},
        None,
    ),
    "tokenizer unknown": (CORPUS, {"tokenizer": "bpee"}, ("WS532", "unknown tokenizer `bpee`")),
    "tokenizer missing": (CORPUS, {"tokenizer": "t/tokenizer.json"}, ("WS532", "no tokenizer file")),
    "tokenizer that is none": (
        {**CORPUS, "tokenizer.json": "{}"},
        {"tokenizer": "tokenizer.json"},
        ("WS532", "`tokenizer.json` is not a tokenizer"),
    ),
    "tokenizer that is no JSON": (
        {**CORPUS, "tokenizer.json": "{"},
        {"tokenizer": "tokenizer.json"},
        ("WS532", "`tokenizer.json` is not a tokenizer"),
    ),
    "text column missing": (JSONL, {"text": "bodi"}, ("WS532", "`data/a.jsonl` has no text column `bodi`")),
    "label of texts missing": (JSONL, {"text": "body", "label": "kind"}, ("WS532", "no label column `kind`")),
    "text of a row missing": (
        {"a.jsonl": LINES + '{"body": "", "label": 1}\n'},
        {"text": "body"},
        ("WS533", "row 21 of `data/a.jsonl` has no text in column `body`"),
    ),
    "number for a text": (
        {"a.jsonl": LINES + '{"body": 3, "label": 1}\n'},
        {"text": "body"},
        ("WS533", "row 21 of `data/a.jsonl` has int, not text, in column `body`"),
    ),
    "label of a row missing": (
        {"a.jsonl": LINES + '{"body": "a"}\n'},
        {"text": "body"},
        ("WS533", "row 21 of `data/a.jsonl` has no label in column `label`"),
    ),
    "text outside": (
        {**TEXTS, "c.txt": "c"},
        {"task": "classification"},
        ("WS533", "text `data/c.txt` is in no class folder"),
    ),
    "text empty": (
        {**TEXTS, "a/9.txt": " \n"},
        {"task": "classification"},
        ("WS533", "`data/a/9.txt` has no text"),
    ),
}
TOKENIZED: dict[str, tuple[dict[str, str | bytes], dict[str, Any], tuple[str, str] | None]] = {
    "byte pairs": (CORPUS, {"tokenizer": "bpe", "sequence_length": 8}, None),
    "no UTF-8": (
        {**CORPUS, "5.txt": b"caf\xe9"},
        {"tokenizer": "bpe"},
        ("WS533", "`data/5.txt` is not UTF-8 at byte 3"),
    ),
    "nothing but blanks": ({"a.txt": " \n"}, {"tokenizer": "bpe"}, ("WS533", "has no text")),
}
CASES |= TOKENIZED
# How rows may be divided: the rows of each part.
SPLITS: dict[str, tuple[dict[str, str | bytes], dict[str, Any], list[int]]] = {
    "pictures in folders of parts": (PARTED, {"split": "given"}, [6, 6, 6]),
    "pictures listed with their parts": (
        {**FLAT, "labels.csv": "file,label,split\n" + LISTED},
        {"split": "given"},
        [2, 2, 2],
    ),
    "pictures listed in folders of parts": (
        {
            **{f"{part}/{n}.png": PNG for part in ("train", "test") for n in range(6)},
            "labels.csv": "file,label\n"
            + "".join(f"{part}/{n}.png,{n % 2}\n" for part in ("train", "test") for n in range(6)),
        },
        {"split": "given", "validation_fraction": 0},
        [6, 0, 6],
    ),
    "listed pictures by group": (
        {**FLAT, "labels.csv": "file,label,plant\n" + PLANTS},
        {"split_by": "plant", "validation_fraction": 0.34},
        [4, 2, 0],
    ),
    "pictures by time": (
        {
            **FLAT,
            "labels.csv": "file,label,day\n"
            + "".join(f"{n}.png,{n % 2},2026-02-0{n + 1}\n" for n in range(6)),
        },
        {"validation_after": "2026-02-04", "test_after": "2026-02-06"},
        [3, 2, 1],
    ),
    "texts by group": (
        {"a.jsonl": STAMPED},
        {"text": "body", "split_by": "who", "validation_fraction": 0.4},
        [12, 8, 0],
    ),
    "texts by time": (
        {"a.csv": "body,label,day\n" + "".join(f"t {n},{n % 2},2026-01-{n + 1:02}\n" for n in range(20))},
        {"text": "body", "validation_after": "2026-01-11", "test_after": "2026-01-16"},
        [10, 5, 5],
    ),
    "texts in files of parts": (
        {"train.jsonl": STAMPED, "val.jsonl": LINES},
        {"text": "body", "split": "given", "test_fraction": 0},
        [20, 20, 0],
    ),
    "texts in folders of parts": (
        PARTED_TEXTS,
        {"task": "classification", "split": "given"},
        [10, 10, 0],
    ),
    "bytes in files of parts": (
        {"train/a.txt": "a" * 170, "train/b.txt": "b" * 170, "test.txt": "c" * 51},
        {"split": "given", "validation_fraction": 0},
        [20, 0, 3],
    ),
}
CASES |= {name: (files, inputs, None) for name, (files, inputs, _) in SPLITS.items()}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data and the spec of each case."""
    folder = tmp_path_factory.mktemp("cases")
    for name, (files, inputs, _) in CASES.items():
        for file, content in files.items():
            path = folder / name / "data" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        given = {"data": "./data", "sequence_length": 16, "shard_count": 1, **inputs}
        (folder / name / "spec.yml").write_text(SPEC.format(json.dumps(given)))
    return folder


@pytest.fixture(scope="module")
def said(root: Path) -> dict[str, list[Diagnostic]]:
    """What one check says of each case."""
    found: dict[str, list[Diagnostic]] = {name: [] for name in CASES}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for each in worldsize.check(".").diagnostics:
            found[Path(each.span.path).parent.name].append(each)
    return found


@pytest.fixture(scope="module")
def run_step() -> Iterator[Callable[..., str]]:
    """Runs the step's own code, and returns what it says where it refuses the data."""
    before = set(sys.modules)
    sys.path.insert(0, str(SOURCE))
    shard = importlib.import_module("shard")

    def run(folder: Path, inputs: dict[str, Any]) -> str:
        options = {"source": ".", "label": "label", "features": "", "format": "auto", "shard_count": 1}
        options |= {"task": "auto", "missing": "refuse", "column_types": ""}
        numbers = {"sequence_length": 16, "validation_fraction": 0.2, "seed": 0, "memory_limit_mib": 64}
        places = {"data": str(folder / "data"), "shards": str(folder / "out")}
        try:
            shard.shard(
                make_options(SOURCE.parent / "component.yml", **(places | numbers | options | inputs))
            )
        except UserError as error:
            return error.message
        return ""

    yield run
    sys.path.remove(str(SOURCE))
    for name in set(sys.modules) - before:
        if str(SOURCE) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("name", CASES)
def test_check_says_what_the_step_does(
    name: str, root: Path, said: dict[str, list[Diagnostic]], run_step: Callable[..., str]
) -> None:
    _, inputs, expected = CASES[name]
    if name in TOKENIZED or inputs.get("tokenizer", "").endswith(".json"):
        pytest.importorskip("tokenizers")
    refused = run_step(root / name, inputs)
    if expected is None:
        assert ([each.message for each in said[name]], refused) == ([], "")
        return
    assert [each.code for each in said[name]] == [expected[0]]
    assert expected[1] in said[name][0].message
    assert expected[1].replace("`data/", "`") in refused
    assert not (root / name / "out" / "manifest.json").exists()


@pytest.mark.parametrize("name", SPLITS)
def test_rows_are_planned_as_they_are_divided(name: str, root: Path, run_step: Callable[..., str]) -> None:
    _, inputs, expected = SPLITS[name]
    assert run_step(root / name, inputs) == ""
    manifest = read_manifest(root / name / "out")
    assert [manifest.split(part).rows for part in terms.SPLITS] == expected
    defaults = {"source": ".", "format": "auto", "label": "label", "sequence_length": 16}
    counted = counts.count_split(root / name / "data", {"validation_fraction": 0.2, **defaults, **inputs})
    assert counted is not None
    assert counted.rows == expected[0]
