from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wsshards import manifest as m
from wsshards import terms
from wsshards.errors import UserError
from wsshards.manifest import add_checksum
from wsshards.verify import verify_shards
from wssources.planned_rows import DIGITS, DIGITS_ROWS, PYTHON_SOURCE, rows_per_class, text_rows

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\\\0"), min_size=1, max_size=12).filter(
    lambda name: name not in {".", ".."}
)
COUNTS = st.integers(0, 10**12)
SHARDS = st.builds(m.Shard, NAMES, COUNTS, COUNTS, st.text("0123456789abcdef", min_size=64, max_size=64))
SPLITS = st.lists(SHARDS, max_size=4).map(lambda shards: m.Split(sum(s.rows for s in shards), tuple(shards)))
SHAPES = st.lists(st.integers(1, 4096), min_size=1, max_size=4).map(tuple)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
FEW_NAMES = st.lists(NAMES, max_size=5).map(tuple)
COLUMNS = st.lists(
    st.builds(
        m.Column,
        NAMES,
        st.sampled_from(terms.COLUMN_KINDS),
        FEW_NAMES,
        st.lists(NUMBERS, max_size=2).map(tuple),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
).map(tuple)
TOKENIZERS = st.just(m.BYTES) | st.builds(
    m.Tokenizer, st.just("bpe"), COUNTS, st.none() | COUNTS, st.none() | COUNTS, NAMES, NAMES
)
FEATURES = st.one_of(
    st.builds(m.Features, NAMES, st.just("float32"), SHAPES),
    st.builds(
        m.Features, NAMES, st.just("float32"), SHAPES, st.just("uint8"), st.just(1 / 255), st.booleans()
    ),
    st.builds(m.Features, st.just("tokens"), st.just("uint16"), SHAPES, tokenizer=TOKENIZERS),
    COLUMNS.map(
        lambda columns: m.Features("features", "float32", (sum(c.width for c in columns),), columns=columns)
    ),
)
CLASSES = st.builds(m.Label, FEW_NAMES, FEW_NAMES)
TARGETS = st.lists(st.tuples(NAMES, NUMBERS, NUMBERS), min_size=1, max_size=3).map(
    lambda targets: m.Label(
        tuple(name for name, _, _ in targets),
        mean=tuple(mean for _, mean, _ in targets),
        deviation=tuple(deviation for _, _, deviation in targets),
    )
)
TASKS_AND_LABELS = st.one_of(
    st.tuples(st.sampled_from([terms.CLASSIFICATION, terms.MULTI_LABEL]), CLASSES),
    st.tuples(st.just(terms.REGRESSION), TARGETS),
    st.just((terms.LANGUAGE_MODEL, None)),
)
MANIFESTS = st.builds(
    lambda described, *parts: m.Manifest(described[0], *parts[:3], described[1], *parts[3:]),
    TASKS_AND_LABELS,
    st.text(),
    COUNTS,
    FEATURES,
    SPLITS,
    SPLITS,
    SPLITS,
    st.builds(
        m.Division,
        st.sampled_from(terms.DIVISIONS),
        NAMES,
        st.sampled_from(["", terms.DATE, terms.NUMBER]),
        st.none() | NUMBERS,
    ),
)


@given(MANIFESTS)
def test_reading_what_was_written_gives_the_same(manifest: m.Manifest) -> None:
    assert m.manifest_from_json(m.manifest_to_json(manifest)) == manifest


ROWS = b"rows"
MANIFEST = m.Manifest(
    terms.CLASSIFICATION,
    "x",
    0,
    m.Features("features", "float32", (2, 3)),
    m.Label(("label",), ("a", "b")),
    m.Split(1, (m.Shard("train/shard-00000.arrow", 1, len(ROWS), hashlib.sha256(ROWS).hexdigest()),)),
    m.Split(0, ()),
)


def _folder(tmp_path: Path) -> tuple[Path, m.Manifest]:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "shard-00000.arrow").write_bytes(ROWS)
    (tmp_path / m.MANIFEST_NAME).write_text(m.manifest_to_json(MANIFEST))
    return tmp_path, MANIFEST


def test_whole_folder_verifies(tmp_path: Path) -> None:
    folder, manifest = _folder(tmp_path)
    assert m.read_manifest(folder) == manifest
    verify_shards(folder, manifest)
    assert manifest.features.width == 6


def test_text_has_the_documented_layout(tmp_path: Path) -> None:
    _, manifest = _folder(tmp_path)
    data = json.loads(m.manifest_to_json(manifest))
    assert list(data) == ["version", "task", "source", "seed", "features", "label", "splits", "sha256"]
    assert data["features"] == {"name": "features", "dtype": "float32", "shape": [2, 3]}
    assert data["splits"]["train"]["shards"][0]["path"] == "train/shard-00000.arrow"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (b"row", "`train/shard-00000.arrow` has 3 bytes, and the manifest says 4"),
        (b"rowz", "`train/shard-00000.arrow` is corrupted: its sha256 is"),
        (None, "cannot read shard `train/shard-00000.arrow`: no such file"),
    ],
)
def test_damage_names_the_shard(tmp_path: Path, damage: bytes | None, says: str) -> None:
    folder, manifest = _folder(tmp_path)
    path = folder / "train" / "shard-00000.arrow"
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(UserError) as caught:
        verify_shards(folder, manifest)
    assert says in caught.value.message


def test_sizes_alone_do_not_read_the_content(tmp_path: Path) -> None:
    folder, manifest = _folder(tmp_path)
    (folder / "train" / "shard-00000.arrow").write_bytes(b"ROWS")
    verify_shards(folder, manifest, checksums=False)
    verify_shards(folder, manifest, part=(1, 2))  # the only shard is the share of rank 0
    with pytest.raises(UserError, match="corrupted"):
        verify_shards(folder, manifest, part=(0, 2))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data.pop("features"), "lacks the field `features`"),
        (lambda data: data.update(version=1), "is of version 1, and this code reads version 2"),
        (lambda data: data["splits"]["train"].update(rows=5), "a split has 5 rows, and its shards 1"),
        (lambda data: data["splits"]["train"]["shards"][0].update(path="../../x"), "leaves the folder"),
        (lambda data: data["splits"]["train"]["shards"][0].update(path="/etc/x"), "leaves the folder"),
        (lambda data: data.update(task="guessing"), "task is 'guessing'"),
        (lambda data: data.update(task="regression"), "a regression has 1 targets, 0 means and 0 deviations"),
        (
            lambda data: data["features"].update(columns=[{"name": "a"}]),
            "a row has 6 numbers, and its columns 1",
        ),
        (lambda data: data.update(features=3), "is not a manifest of shards"),
    ],
)
def test_damaged_manifest_is_one_sentence(tmp_path: Path, change: object, says: str) -> None:
    folder, manifest = _folder(tmp_path)
    data = json.loads(m.manifest_to_json(manifest))
    del data["sha256"]
    change(data)  # type: ignore[operator]
    (folder / m.MANIFEST_NAME).write_text(json.dumps(add_checksum(data)))
    with pytest.raises(UserError) as caught:
        m.read_manifest(folder)
    assert says in caught.value.message
    assert caught.value.help


@given(st.data())
def test_no_flipped_bit_is_believed(data: st.DataObject) -> None:
    """Text that says the same in other words, such as a space for a newline, may pass."""
    written = m.manifest_to_json(MANIFEST)
    content = bytearray(written.encode())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = m.manifest_from_json(content.decode())
    except (UserError, UnicodeDecodeError):
        return
    assert found == MANIFEST


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00", '{"version": 1}'])
def test_anything_else_is_refused_without_a_traceback(text: str) -> None:
    with pytest.raises(UserError):
        m.manifest_from_json(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_any_json_is_a_manifest_or_a_user_error(value: object) -> None:
    with pytest.raises(UserError):
        m.manifest_from_json(
            json.dumps(
                add_checksum(
                    {"version": 1, "task": value, "splits": value, "features": value, "label": value}
                )
            )
        )


def test_folder_without_manifest_is_not_complete(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a complete shards folder"):
        m.read_manifest(tmp_path)


def test_builtin_rows() -> None:
    assert rows_per_class(DIGITS, 1) == DIGITS_ROWS
    assert sum(DIGITS_ROWS) == 1797
    assert rows_per_class(PYTHON_SOURCE, 128) == (4 * 1024 * 1024 // 129,)
    assert text_rows(10, 4) == 2
    with pytest.raises(ValueError, match="not one of"):
        rows_per_class("builtin:x", 1)
