"""Rows counted at compile time are those that the sharding component counts when it runs."""

from __future__ import annotations

import gzip
import importlib
import json
import struct
import zipfile
from pathlib import Path

import pytest

from worldsize import spec as spec_layer
from worldsize.data import counts
from worldsize.documents import yaml
from worldsize.resolving.resolve import plan_spec
from wssources import planned_rows

SPEC = """\
name: test
compute: {cpu: {target: azureml:cpu, instance_type: Standard_D16s_v5}}
steps:
  shard:
    uses: shard_data
    with: {%s}
  train:
    uses: train_ddp
    with: {model: mlp, epochs: 2, optimizer: sgd}
    scale: {reference: {batch_size: 8, learning_rate: 0.1}}
"""


def rows(folder: Path, given: str) -> int | None:
    path = folder / "spec.yml"
    document = yaml.load(path, SPEC % given)
    spec, problems = spec_layer.from_document(document)
    assert spec is not None, problems
    resolved = plan_spec(spec)
    assert resolved.plan is not None
    training = resolved.plan.steps["train"].training
    assert training is not None
    return training.rows


def held_out(per_class: list[int], fraction: float = 0.2) -> int:
    return sum(per_class) - planned_rows.validation_rows(per_class, fraction)


def write_csv(path: Path, labels: list[str]) -> None:
    path.write_text("".join(["x,label\n", *(f"{number},{label}\n" for number, label in enumerate(labels))]))


def test_builtin_digits(tmp_path: Path) -> None:
    assert rows(tmp_path, 'source: "builtin:digits"') == 1438
    expected = held_out(list(planned_rows.DIGITS_ROWS), 0.3)
    assert rows(tmp_path, 'source: "builtin:digits", validation_fraction: 0.3') == expected


def test_builtin_python_source_follows_the_sequence_length(tmp_path: Path) -> None:
    for length in (64, 128):
        (total,) = planned_rows.rows_per_class(planned_rows.PYTHON_SOURCE, length)
        given = f'source: "builtin:python-source", sequence_length: {length}'
        assert rows(tmp_path, given) == held_out([total])


def test_digits_are_what_sklearn_has() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    numpy = importlib.import_module("numpy")
    assert tuple(numpy.bincount(datasets.load_digits().target)) == planned_rows.DIGITS_ROWS


def test_csv(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_csv(tmp_path / "data" / "a.csv", ["cat"] * 7 + ["dog"] * 12)
    write_csv(tmp_path / "data" / "b.csv", ["dog"] * 4)
    (tmp_path / "data" / "README.md").write_text("not data")
    (tmp_path / "data" / "_SUCCESS").write_text("")
    assert rows(tmp_path, "data: ./data") == held_out([7, 16])
    assert rows(tmp_path, "data: ./data, source: b.csv") == held_out([4])
    assert rows(tmp_path, "data: ./data/a.csv") == held_out([7, 12])
    assert rows(tmp_path, "data: {type: uri_folder, path: ./data}") == held_out([7, 16])
    assert rows(tmp_path, "data: ./data, label: species") is None


def count(path: Path) -> int | None:
    inputs = {"format": "auto", "label": "label", "validation_fraction": 0.0}
    counted = counts.count_split(path, inputs)
    return counted.rows if counted is not None else None


def test_a_quoted_line_break_is_one_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('x,label\n1,"two\nlines"\n\n2,"two\nlines"\n')
    assert count(tmp_path / "a.csv") == 2


def test_packed_tables_are_not_unpacked_for_a_count(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,label\n1,a\n2,b\n"))
    assert count(tmp_path / "a.csv.gz") is None


def test_sources_are_text_whatever_their_ending(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.py").write_bytes(b"x" * 650)
    assert rows(tmp_path, "data: ./data, sequence_length: 64") == held_out([10])


def test_json_lines(tmp_path: Path) -> None:
    lines = [json.dumps({"x": [1, 2], "label": label}) for label in [0] * 6 + [1.0] * 9 + [1] * 2]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n\n")
    assert rows(tmp_path, "data: ./a.jsonl") == held_out([6, 11])


def test_npz_without_numpy(tmp_path: Path) -> None:
    header = "{'descr': '<i4', 'fortran_order': False, 'shape': (5,), }".ljust(117) + "\n"
    array = (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(header))
        + header.encode()
        + struct.pack("<5i", 1, 1, 2, 2, 2)
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", array)
        archive.writestr("y.npy", array)
    assert count(tmp_path / "a.npz") == 5
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", b"")
        archive.writestr("y.npy", array)
    assert count(tmp_path / "a.npz") is None  # no step can read it


@pytest.mark.parametrize("dtype", ["int64", "uint8", ">i2"])
def test_npz_of_numpy(tmp_path: Path, dtype: str) -> None:
    numpy = pytest.importorskip("numpy")
    labels = numpy.array([0] * 3 + [1] * 4, dtype=dtype)
    numpy.savez_compressed(tmp_path / "a.npz", x=numpy.zeros((7, 2)), label=labels)
    assert count(tmp_path / "a.npz") == 7


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    parquet.write_table(
        pyarrow.table({"x": [1.0] * 9, "label": ["a"] * 4 + ["b"] * 5}), tmp_path / "a.parquet"
    )
    assert count(tmp_path) == 9


def test_pictures_in_class_folders(tmp_path: Path) -> None:
    for name, count in (("cat", 3), ("dog", 5)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "data" / name / f"{number}.png").write_bytes(b"")
    assert rows(tmp_path, "data: ./data") == held_out([3, 5])


def test_pictures_with_a_csv_of_labels(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(9):
        (tmp_path / "data" / f"{number}.png").write_bytes(b"")
    lines = "".join(f"{number}.png,{'a' if number < 4 else 'b'},{number}.5\n" for number in range(9))
    (tmp_path / "data" / "labels.csv").write_text(f"file,kind,size\n{lines}")
    assert rows(tmp_path, "data: ./data, label: kind") == held_out([4, 5])
    assert rows(tmp_path, "data: ./data, label: size") == held_out([9])
    assert rows(tmp_path, "data: ./data, label: size, test_fraction: 0.3") == 9 - 3 - 2
    assert rows(tmp_path, "data: ./data, label: kind, broken_images: skip") is None
    assert rows(tmp_path, "data: ./data, label: none") is None


def test_texts_with_labels(tmp_path: Path) -> None:
    for name, count in (("cat", 6), ("dog", 9)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "data" / name / f"{number}.txt").write_text(f"{name} {number}")
    lines = [json.dumps({"body": f"text {number}", "label": number % 2}) for number in range(20)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert rows(tmp_path, "data: ./data, task: classification") == held_out([6, 9])
    assert rows(tmp_path, "data: ./a.jsonl, text: body") == held_out([10, 10])
    assert rows(tmp_path, "data: ./a.jsonl, text: body, task: language_model") is None
    assert rows(tmp_path, "data: ./data, tokenizer: bpe") is None


def test_text_is_one_stream(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_bytes(b"x" * 1000)
    (tmp_path / "data" / "b.txt").write_bytes(b"x" * 300)
    assert rows(tmp_path, "data: ./data, sequence_length: 64") == held_out([1300 // 65])


@pytest.mark.parametrize("content", [b"", b"x,y\n1,2\n", b"\xff\xfe\x00", b'x,label\n"1'])
def test_what_cannot_be_counted_is_left_to_the_step(tmp_path: Path, content: bytes) -> None:
    for suffix in ("csv", "jsonl", "npz", "parquet"):
        (tmp_path / f"a.{suffix}").write_bytes(content)
        found = count(tmp_path / f"a.{suffix}")
        assert found is None or suffix in ("csv", "jsonl")
    assert count(tmp_path) is None  # several formats


def test_large_data_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_csv(tmp_path / "a.csv", ["a"] * 10)
    monkeypatch.setattr(counts, "MAX_BYTES", 20)
    assert count(tmp_path) is None


def test_data_that_is_elsewhere_is_unknown(tmp_path: Path) -> None:
    assert rows(tmp_path, "data: azureml:mine:1") is None
    assert rows(tmp_path, "data: ./missing") is None
