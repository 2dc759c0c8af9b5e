from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Make = Callable[[Path], dict[str, Any] | None]


def _write(folder: Path, **files: str | bytes) -> None:
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def _csv(text: str, **values: Any) -> Make:
    def make(folder: Path) -> dict[str, Any]:
        _write(folder, d__csv=text)
        return values

    return make


def _jsonl(text: str) -> Make:
    return lambda folder: _write(folder, d__jsonl=text)


def _npz(**arrays: Any) -> Make:
    def make(folder: Path) -> None:
        import numpy as np

        np.savez(folder / "d.npz", **{name: np.asarray(value) for name, value in arrays.items()})

    return make


def _parquet(**columns: Any) -> Make:
    def make(folder: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns), folder / "d.parquet")

    return make


def _pictures(**pictures: tuple[str, tuple[int, int]] | None) -> Make:
    def make(folder: Path) -> None:
        from PIL import Image

        for name, picture in pictures.items():
            path = folder / f"{name.replace('__', '/')}.png"
            path.parent.mkdir(exist_ok=True)
            if picture is None:
                path.write_bytes(b"not a picture")
            else:
                Image.new(*picture).save(path)

    return make


def _broken_png(folder: Path) -> None:
    _pictures(a__1=("L", (40, 40)), b__1=("L", (40, 40)))(folder)
    whole = (folder / "b" / "1.png").read_bytes()
    (folder / "b" / "1.png").write_bytes(whole[: len(whole) // 2])


def _empty_class(folder: Path) -> None:
    _pictures(a__1=("L", (4, 4)), b__1=("L", (4, 4)))(folder)
    (folder / "c").mkdir()


GOOD = "x,y,label\n" + "1,2,a\n3,4,b\n" * 10
OBJECT = '{"x": 1, "label": "a"}\n'

CASES: dict[str, tuple[Make, str, str]] = {
    "csv without rows": (_csv("x,label\n"), "`.` has no rows", "at least one row"),
    "csv without anything": (_csv(""), "`d.csv` is empty", "column names"),
    "csv without header": (
        _csv("1,2\n3,4\n"),
        "`d.csv` has no header: its first row is all numbers",
        "column names",
    ),
    "ragged row": (
        _csv(GOOD + "5,6\n"),
        "line 22 of `d.csv` has 2 values, but the header names 3",
        "one value per column",
    ),
    "too long a row": (
        _csv(GOOD + "5,6,a,7\n"),
        "line 22 of `d.csv` has 4 values, but the header names 3",
        "value",
    ),
    "text in a feature": (
        _csv("x,label\n" + "1,a\n2,b\n" * 4 + "red,a\n"),
        "line 10 of `d.csv` has `red` in feature column `x`, which is not a number",
        "list the numeric columns in `features`",
    ),
    "value missing": (
        _csv("x,y,label\n1,2,a\n,4,b\n"),
        "line 3 of `d.csv` has no value in column `x`",
        "fill or drop",
    ),
    "value not finite": (
        _csv("x,label\n1,a\nnan,b\n"),
        "line 3 of `d.csv` has `nan` in column `x`",
        "fill or drop",
    ),
    "label missing": (
        _csv("x,label\n1,a\n2,\n"),
        "line 3 of `d.csv` has no label in column `label`",
        "`missing: drop`",
    ),
    "unknown label": (
        _csv(GOOD, label="lable"),
        "`d.csv` has no label column `lable`",
        "did you mean `label`?",
    ),
    "unknown feature": (
        _csv(GOOD, features="z"),
        "`d.csv` has no feature column `z`",
        "choose from `x`, `y`, `label`",
    ),
    "label as feature": (
        _csv(GOOD, features="x,label"),
        "`label` is both the label and a feature",
        "leave it out",
    ),
    "only a label": (_csv("label\na\nb\n"), "has no column but the label `label`", "column of features"),
    "same column twice": (_csv("x,x,label\n1,2,a\n"), "`d.csv` has two columns called `x`", "its own name"),
    "single class": (
        _csv("x,label\n" + "1,a\n2,a\n" * 9),
        "all 18 rows of `.` have the label `a`",
        "two classes",
    ),
    "fewer rows than shards": (
        _csv(GOOD, shard_count=50),
        "`.` has 20 training rows, but `shard_count` is 50",
        "every shard needs a row",
    ),
    "decimal commas": (
        lambda folder: _write(
            folder,
            d__csv=b"x,z,label\n"
            + b"".join(b'%d,"1,%d",%c\n' % (n, n % 40, b"ab"[n % 2]) for n in range(90)),
        ),
        "column `z` of `d.csv` has numbers with decimal commas, such as `1,0`",
        "`pandas.read_csv(…, decimal=',').to_csv(…, index=False)`, or say `column_types: z=category`",
    ),
    "a target that is constant": (
        lambda folder: (
            _write(folder, d__csv=b"x,label\n" + b"".join(b"%d,7\n" % n for n in range(30)))
            or {"task": "regression"}
        ),
        "all 30 rows of `d.csv` have `7` in label `label`",
        "numbers that differ",
    ),
    "csv that is binary": (
        lambda folder: _write(folder, d__csv=b"x,label\n1,a\n2,b\n\xff,a\n"),
        "line 4 of `d.csv` has a value in column `x` that is not UTF-8",
        "",
    ),
    "missing column in a further file": (
        lambda folder: _write(folder, a__csv=GOOD, b__csv="x,label\n1,a\n"),
        "`b.csv` has no column `y`, but `a.csv` has",
        "the same columns",
    ),
    "json without rows": (_jsonl("\n\n"), "`d.jsonl` has no rows", "one JSON object per line"),
    "json cut short": (
        _jsonl(OBJECT * 3 + '{"x": 1, "la'),
        "row 4 of `d.jsonl` is not JSON",
        "object a line",
    ),
    "json list": (_jsonl(OBJECT + "[1]\n"), "row 2 of `d.jsonl` is not a JSON object", "object a line"),
    "json of another type": (
        _jsonl(OBJECT * 3 + '{"x": "red", "label": "a"}\n'),
        'row 4 of `d.jsonl` has `"red"` in `x`, and the first row a number',
        "one kind",
    ),
    "json object": (
        _jsonl('{"x": {"y": 1}, "label": "a"}\n'),
        'row 1 of `d.jsonl` has the object `{"y": 1}` in `x`',
        "fields of their own",
    ),
    "UTF-16": (lambda folder: _write(folder, d__csv=GOOD.encode("utf-16")), "it is UTF-16", "as UTF-8"),
    "json text feature": (
        _jsonl("".join(f'{{"x": "name {row}", "label": {row % 2}}}\n' for row in range(20))),
        "column `x` of `d.jsonl` has another text in nearly every row: 20 in 20 rows",
        "`features`",
    ),
    "json ragged list": (
        _jsonl('{"x": [1, 2], "label": "a"}\n{"x": [1], "label": "b"}\n'),
        "row 2 of `d.jsonl` has 1 values in `x`, the rows before it 2",
        "same number of features",
    ),
    "json field missing": (
        _jsonl(OBJECT + '{"label": "b"}\n'),
        "row 2 of `d.jsonl` has no field `x`",
        "fill",
    ),
    "parquet that is not": (
        lambda folder: _write(folder, d__parquet=b"PAR1 no"),
        "cannot read `d.parquet`",
        "whole",
    ),
    "parquet text feature": (
        _parquet(x=[[["r"]], [["g"]]], y=[1, 2], label=[0, 1]),
        "`x` of `d.parquet` holds list<element: list<element: string>>, not numbers",
        "encode",
    ),
    "parquet null": (
        _parquet(x=[1, None], label=[0, 1]),
        "row 2 of `d.parquet` has no value in column `x`",
        "fill or drop",
    ),
    "parquet infinity": (
        _parquet(x=[1.0, 2.0, float("inf")], label=[0, 1, 1]),
        "row 3 of `d.parquet` holds",
        "fill or drop",
    ),
    "parquet fraction label": (
        _parquet(x=[1, 2], label=[0.5, 1]),
        "label `label` has 2 distinct numbers with fractions in 2 rows, such as `0.5`",
        "say `task: regression` or `task: classification`",
    ),
    "parquet null label": (
        _parquet(x=[1, 2], label=["a", None]),
        "row 2 of `d.parquet` has no value in column `label`",
        "`missing: drop`",
    ),
    "npz that is not": (lambda folder: _write(folder, d__npz=b"PK no"), "cannot read `d.npz`", "whole"),
    "npz without labels": (
        _npz(x=[[1.0]], z=[1]),
        "`d.npz` has no label array `label`",
        "choose from `x`, `z`",
    ),
    "npz with too much": (
        _npz(x=[[1.0]], z=[1], y=[1]),
        "`d.npz` holds `x`, `z`, `y`: one array of features",
        "`features`",
    ),
    "npz of unequal length": (
        _npz(x=[[1.0]] * 3, y=[1, 2]),
        "`x` has shape [3, 1] and `y` [2]",
        "one label for each row",
    ),
    "npz with nan": (
        _npz(x=[[1.0], [float("nan")]], y=[1, 2]),
        "row 2 of `d.npz` holds a number that is not finite",
        "fill",
    ),
    "npz of text": (_npz(x=[["a"]], y=[1]), "array `x` of `d.npz` holds", "numbers"),
    "not a picture": (
        _pictures(a__1=("L", (4, 4)), b__1=None),
        "cannot read `b/1.png`: it is not a picture",
        "whole",
    ),
    "half a picture": (_broken_png, "cannot read `b/1.png`", "whole"),
    "picture outside classes": (
        _pictures(one=("L", (4, 4))),
        "picture `one.png` is in no class folder",
        "named for its class",
    ),
    "empty class": (_empty_class, "class folder `c` holds no picture", "add pictures or remove"),
    "text shorter than a row": (lambda folder: _write(folder, d__txt="short"), "`.` has no rows", "row"),
    "no files": (lambda folder: None, "holds no files", "files in it"),
    "unknown format": (
        lambda folder: _write(folder, d__xyz=""),
        "no file of a known format, but `.xyz`",
        "`format`",
    ),
    "several formats": (
        lambda folder: _write(folder, d__csv=GOOD, e__jsonl=OBJECT),
        "several formats: csv, jsonl",
        "say which with `format`",
    ),
}


def _arguments(tmp_path: Path, make: Make) -> dict[str, Any]:
    folder = tmp_path / "data"
    folder.mkdir()
    return {"data": folder, "shard_count": 1, "shards": tmp_path / "out"} | (make(folder) or {})


def _expect_refusal(done: Any, out: Path, message: str, advice: str) -> None:
    assert done.returncode == 2, (done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "help"], done.stderr
    assert message in lines[0]
    assert advice in lines[1]
    assert len(lines[0]) <= 220
    assert not list(out.rglob("*.*")) if out.exists() else True


@pytest.mark.parametrize("name", CASES)
def test_bad_data_is_one_sentence_and_nothing_is_written(shard: Run, tmp_path: Path, name: str) -> None:
    make, message, advice = CASES[name]
    _expect_refusal(shard(**_arguments(tmp_path, make)), tmp_path / "out", message, advice)


@pytest.mark.smoke
@pytest.mark.run
def test_bad_data_is_one_sentence_of_the_component_s_process(component: Run, tmp_path: Path) -> None:
    make, message, advice = CASES["text in a feature"]
    done = component("shard_data", **_arguments(tmp_path, make))
    _expect_refusal(done, tmp_path / "out", message, advice)


@pytest.mark.parametrize(
    ("values", "message", "advice"),
    [
        ({"source": "builtin:digit"}, "unknown source `builtin:digit`", "did you mean `builtin:digits`?"),
        (
            {"source": "digits"},
            "source `digits` is a path inside `data`, and `data` is not bound",
            "`builtin:digits`",
        ),
        ({"source": "fich", "data": "."}, "`data` has no `fich`", "did you mean `fish`?"),
        ({"source": "../..", "data": "."}, "source `../..` leads out of `data`", "inside the folder"),
        ({"validation_fraction": 1.0}, "`validation_fraction` is 1.0", "less than 1"),
        ({"shard_count": 0}, "`shard_count` is 0", "at least 1"),
        pytest.param(
            {"source": "builtin:digits", "shard_count": 5000},
            "has 1,438 training rows, but `shard_count` is 5,000",
            "",
            marks=[pytest.mark.run, pytest.mark.smoke],
        ),
    ],
)
def test_bad_arguments(shard: Run, tmp_path: Path, values: dict[str, Any], message: str, advice: str) -> None:
    (tmp_path / "data" / "fish").mkdir(parents=True)
    if "data" in values:
        values["data"] = tmp_path / "data"
    done = shard(shards=tmp_path / "out", **values)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[0]
    assert advice in done.stderr.splitlines()[1]
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.smoke
@pytest.mark.run
def test_write_that_the_system_refuses_leaves_no_manifest(shard: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert shard(source="builtin:digits", shards=out).returncode == 0
    # No larger files: the kernel then refuses as a full disk does.
    done = shard(source="builtin:digits", shards=out, shard_count=2, largest=40_000)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"error: the disk is full while writing shards in `{out}`")
    assert len(done.stderr.splitlines()) == 2
    assert not [file for file in out.rglob("*") if file.is_file()]


@pytest.mark.smoke
@pytest.mark.run
@pytest.mark.skipif(shutil.which("unshare") is None, reason="mounting a small disk needs unshare")
def test_full_disk_is_one_sentence(component: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    inside = ["unshare", "--map-root-user", "--mount", "bash", "-c"]
    mount = f"mount -t tmpfs -o size=200k none {small} && "
    if subprocess.run([*inside, mount + "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody mount a small disk")
    real = subprocess.run

    def run(command: list[str], **options: Any) -> Any:
        check = f"; status=$?; ls -A {small}/out/*; exit $status"
        return real([*inside, mount + command[-1] + check], **options)

    monkeypatch.setattr(subprocess, "run", run)
    done = component("shard_data", source="builtin:digits", shards=small / "out", shard_count=3)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: the disk is full while writing"), done.stderr
    assert "no space left on device" in done.stderr
    assert ".arrow" not in done.stdout
    assert "manifest" not in done.stdout


def test_truncated_archive_inside(shard: Run, tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "d.npz", x=np.ones((1000, 10), np.float32), y=np.arange(1000) % 2)
    data = bytearray((tmp_path / "d.npz").read_bytes())
    place = data.find(struct.pack("<f", 1.0) * 4)
    data[place + 100] ^= 0xFF  # the zip's own checksum finds it
    (tmp_path / "d.npz").write_bytes(bytes(data))
    done = shard(data=tmp_path / "d.npz", source=".", shards=tmp_path / "out")
    assert done.returncode == 2, done.stderr
    assert "cannot read `d.npz`: Bad CRC-32" in done.stderr
