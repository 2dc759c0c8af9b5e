from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from wsshards import manifest as contents
from wsshards import terms
from wsshards.verify import verify_shards
from wssources.planned_rows import DIGITS, DIGITS_ROWS, PYTHON_SOURCE, rows_per_class, validation_rows

Run = Callable[..., Any]


def _shard(shard: Run, out: Path, **values: Any) -> contents.Manifest:
    done = shard(shards=out, **values)
    assert done.returncode == 0, done.stderr
    manifest = contents.read_manifest(out)
    verify_shards(out, manifest)
    files = {file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file()}
    listed = {shard.path for name in terms.SPLITS for shard in manifest.split(name).shards}
    assert files == listed | {contents.MANIFEST_NAME, contents.FEED_NAME}  # nothing temporary is left
    return manifest


def _rows(out: Path, split: str) -> tuple[Any, Any]:
    import numpy as np

    from wsshards.reader import ShardReader

    reader = ShardReader(out, split)
    return reader.gather(np.arange(len(reader)))


def _multiset(out: Path, split: str) -> Counter[tuple[bytes, int]]:
    x, y = _rows(out, split)
    return Counter((row.tobytes(), 0 if y is None else int(y[i])) for i, row in enumerate(x))


def _bytes(out: Path) -> dict[str, str]:
    return {
        file.relative_to(out).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in out.rglob("*")
        if file.is_file()
    }


@pytest.mark.smoke
@pytest.mark.run
def test_digits_follow_the_plan_exactly(component: Run, tmp_path: Path) -> None:
    import numpy as np
    from sklearn.datasets import load_digits

    manifest = _shard(partial(component, "shard_data"), tmp_path / "s", source=DIGITS, shard_count=8)
    held_out = validation_rows(DIGITS_ROWS, 0.2)
    assert (manifest.train.rows, manifest.validation.rows) == (1797 - held_out, held_out)
    sizes = [shard.rows for shard in manifest.train.shards]
    assert len(sizes) == 8
    assert max(sizes) - min(sizes) <= 1
    assert manifest.features.shape == (1, 8, 8)
    assert manifest.label is not None
    assert manifest.label.classes == tuple("0123456789")
    digits = load_digits()
    truth = Counter(
        (row.tobytes(), int(label))
        for row, label in zip((digits.data / 16).astype(np.float32), digits.target, strict=True)
    )
    assert _multiset(tmp_path / "s", "train") + _multiset(tmp_path / "s", "validation") == truth
    _, labels = _rows(tmp_path / "s", "validation")
    assert np.bincount(labels).tolist() == [validation_rows([rows], 0.2) for rows in DIGITS_ROWS]


@pytest.mark.smoke
@pytest.mark.run
def test_rows_are_shuffled_by_the_seed(shard: Run, tmp_path: Path) -> None:
    for seed in (0, 1):
        _shard(shard, tmp_path / str(seed), source=DIGITS, seed=seed)
    _, first = _rows(tmp_path / "0", "train")
    _, second = _rows(tmp_path / "1", "train")
    assert len(set(first[:50].tolist())) > 5
    assert first.tolist() != second.tolist()
    assert _multiset(tmp_path / "0", "validation") != _multiset(tmp_path / "1", "validation")


@pytest.mark.run
def test_python_source_has_the_rows_the_compiler_counts(shard: Run, tmp_path: Path) -> None:
    manifest = _shard(shard, tmp_path / "s", source=PYTHON_SOURCE, sequence_length=64, shard_count=3)
    rows = rows_per_class(PYTHON_SOURCE, 64)
    assert manifest.task == terms.LANGUAGE_MODEL
    assert manifest.validation.rows == pytest.approx(validation_rows(rows, 0.2), abs=5)  # it repeats itself
    assert manifest.train.rows + manifest.validation.rows == rows[0]
    assert manifest.features == contents.Features("tokens", "uint8", (65,), tokenizer=contents.BYTES)
    assert manifest.label is None
    x, y = _rows(tmp_path / "s", "train")
    assert y is None
    assert b"import" in x[:2000].tobytes()


def _csv(folder: Path, rows: int = 400, names: tuple[str, ...] = ("b.csv", "a.csv")) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for place, name in enumerate(names):
        lines = [f"{i % 97},{i * 0.5},{'cat' if i % 3 else 'dog'}" for i in range(place, rows, len(names))]
        (folder / name).write_text("\n".join(["x,y,label", *lines]) + "\n")
    return folder


@pytest.mark.smoke
@pytest.mark.run
def test_bytes_depend_on_data_seed_and_shard_count_alone(component: Run, tmp_path: Path) -> None:
    process = partial(component, "shard_data")
    one = _csv(tmp_path / "one")
    two = _csv(tmp_path / "elsewhere" / "two", names=("b.csv", "a.csv"))
    (two / "README.md").write_text("not data")
    (two / "_SUCCESS").write_text("")
    _shard(process, tmp_path / "s1", data=one, seed=5, env={"PYTHONHASHSEED": "1"})
    _shard(process, tmp_path / "s2", data=two, seed=5, env={"PYTHONHASHSEED": "2", "OMP_NUM_THREADS": "1"})
    assert _bytes(tmp_path / "s1") == _bytes(tmp_path / "s2")


@pytest.mark.run
@pytest.mark.smoke
def test_shard_count_cuts_the_same_rows_elsewhere(shard: Run, tmp_path: Path) -> None:
    data = _csv(tmp_path / "d")
    for count in (1, 7):
        manifest = _shard(shard, tmp_path / str(count), data=data, shard_count=count)
        assert len(manifest.train.shards) == count
    for split in ("train", "validation"):
        x1, y1 = _rows(tmp_path / "1", split)
        x7, y7 = _rows(tmp_path / "7", split)
        assert (x1 == x7).all()
        assert (y1 == y7).all()


@pytest.mark.smoke
@pytest.mark.run
def test_spilling_to_disk_changes_nothing(shard: Run, tmp_path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "d.npz", x=rng.standard_normal((20_000, 120), np.float32), y=rng.integers(0, 4, 20_000)
    )
    for limit in (16, 512):  # 4 MiB of rows in memory for 10 MiB of data, and all of it
        _shard(shard, tmp_path / str(limit), data=tmp_path / "d.npz", shard_count=3, memory_limit_mib=limit)
    assert _bytes(tmp_path / "16") == _bytes(tmp_path / "512")


def test_copies_of_a_row_never_straddle_the_split(shard: Run, tmp_path: Path) -> None:
    lines = ["x,y,label"] + [f"{i % 50},{i % 50 * 2},{i % 50 % 2}" for i in range(1000)]
    (tmp_path / "d.csv").write_text("\n".join(lines))
    manifest = _shard(shard, tmp_path / "s", data=tmp_path / "d.csv", shard_count=2)
    train, validation = (set(_multiset(tmp_path / "s", split)) for split in ("train", "validation"))
    assert train
    assert validation
    assert not train & validation
    assert manifest.validation.rows == validation_rows([500, 500], 0.2)  # 5 of 25 values of 20 copies


def test_second_run_replaces_the_first(shard: Run, tmp_path: Path) -> None:
    data = _csv(tmp_path / "d")
    _shard(shard, tmp_path / "s", data=data, shard_count=9)
    assert len(_shard(shard, tmp_path / "s", data=data, shard_count=2).train.shards) == 2


def _expected() -> tuple[Any, list[str]]:
    import numpy as np

    rng = np.random.default_rng(3)
    return rng.standard_normal((60, 4)).astype(np.float32), ["no", "yes"] * 30


def _same_rows(out: Path, x: Any, labels: list[str]) -> None:
    manifest = contents.read_manifest(out)
    assert manifest.label is not None
    assert manifest.label.classes == tuple(sorted(set(labels)))
    numbers = [manifest.label.classes.index(label) for label in labels]
    truth = Counter((row.tobytes(), number) for row, number in zip(x, numbers, strict=True))
    assert _multiset(out, "train") + _multiset(out, "validation") == truth


@pytest.mark.parametrize("layout", ["columns", "list", "fixed"])
def test_parquet(shard: Run, tmp_path: Path, layout: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    x, labels = _expected()
    columns: dict[str, Any] = {f"c{i}": x[:, i] for i in range(4)}
    if layout == "list":
        columns = {"vector": x.tolist()}
    if layout == "fixed":
        columns = {"vector": pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 4)}
    pq.write_table(pa.table(columns | {"label": labels}), tmp_path / "d.parquet", row_group_size=13)
    _shard(shard, tmp_path / "s", data=tmp_path / "d.parquet")
    _same_rows(tmp_path / "s", x, labels)


@pytest.mark.parametrize("layout", ["columns", "list"])
def test_json_lines(shard: Run, tmp_path: Path, layout: str) -> None:
    x, labels = _expected()
    lines = [
        json.dumps(
            ({"v": row} if layout == "list" else dict(zip("abcd", row, strict=True)))
            | {"kind": label, "note": "-"}
        )
        for row, label in zip(x.tolist(), labels, strict=True)
    ]
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    _shard(
        shard,
        tmp_path / "s",
        data=tmp_path,
        source="d.jsonl",
        label="kind",
        features="v" if layout == "list" else "a,b,c, d",
    )
    _same_rows(tmp_path / "s", x, labels)


def test_csv_with_chosen_features_and_compression(shard: Run, tmp_path: Path) -> None:
    import gzip

    x, labels = _expected()
    lines = ['name,a,"b, or c",c,d,my label'] + [
        ",".join(['"Smith, J"', *map(repr, map(float, row)), label])
        for row, label in zip(x, labels, strict=True)
    ]
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress("\r\n".join(lines).encode()))
    _shard(shard, tmp_path / "s", data=tmp_path, label="my label", features='a,"b, or c",c,d')
    _same_rows(tmp_path / "s", x, labels)


@pytest.mark.parametrize("order", ["C", "F"])
def test_npz(shard: Run, tmp_path: Path, order: Any) -> None:
    import numpy as np

    x, labels = _expected()
    np.savez_compressed(tmp_path / "d.npz", features=np.asarray(x, order=order), label=labels)
    _shard(shard, tmp_path / "s", data=tmp_path)
    _same_rows(tmp_path / "s", x, labels)


def test_npz_of_pictures_is_kept_as_bytes(shard: Run, tmp_path: Path) -> None:
    import numpy as np

    pixels = np.random.default_rng(0).integers(0, 256, (40, 5, 6, 3), np.uint8)
    np.savez(tmp_path / "d.npz", x=pixels, y=np.arange(40) % 2)
    manifest = _shard(shard, tmp_path / "s", data=tmp_path, shard_count=1, validation_fraction=0)
    assert manifest.features == contents.Features("features", "float32", (3, 5, 6), "uint8", 1 / 255)
    assert manifest.validation.rows == 0
    x, _ = _rows(tmp_path / "s", "train")
    found = {row.tobytes() for row in np.rint(x * 255).astype(np.uint8)}
    assert found == {row.transpose(2, 0, 1).tobytes() for row in pixels}


def _picture(path: Path, size: tuple[int, int] = (6, 5), mode: str = "RGB", shade: int = 0) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, shade if mode == "L" else (shade, 10, 20)[: len(mode)]).save(path)


def test_folder_of_pictures_per_class(shard: Run, tmp_path: Path) -> None:
    for index in range(10):
        _picture(tmp_path / "d" / "cats" / f"{index}.png", shade=index)
        _picture(tmp_path / "d" / "dogs" / "deep" / f"{index}.PNG", shade=100 + index)
    manifest = _shard(shard, tmp_path / "s", data=tmp_path / "d", shard_count=2)
    assert manifest.label is not None
    assert manifest.label.classes == ("cats", "dogs")
    assert manifest.features.shape == (3, 5, 6)
    x, y = _rows(tmp_path / "s", "train")
    assert [bool(row[0, 0, 0] > 0.3) for row in x] == [bool(label) for label in y]
    assert manifest.validation.rows == 4


def test_text_is_cut_into_windows_of_bytes(shard: Run, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"world" * 100)
    (tmp_path / "a.md").write_bytes(b"hello" * 100)
    _shard(shard, tmp_path / "s", data=tmp_path, source=".", sequence_length=7, shard_count=2)
    text = b"hello" * 100 + b"world" * 100
    windows = Counter((text[i : i + 8], 0) for i in range(0, 1000, 8))
    assert _multiset(tmp_path / "s", "train") + _multiset(tmp_path / "s", "validation") == windows


def test_whole_numbers_are_ordered_as_numbers(shard: Run, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    labels = [10.0, 9.0, -1.0] * 10
    pq.write_table(pa.table({"x": range(30), "label": labels}), tmp_path / "d.parquet")
    manifest = _shard(shard, tmp_path / "s", data=tmp_path / "d.parquet")
    assert manifest.label is not None
    assert manifest.label.classes == ("-1", "9", "10")
