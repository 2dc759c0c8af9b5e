"""Exported models of tables, pictures and texts read what their users have, as sharding reads it."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from wsshards import picture_decoding, token_rows
from wstrain import table_rows
from wstrain.raw_rows import PictureRows, RawRows, TableRows, TextRows

SHAPE = (3, 8, 8)
PICTURES = {
    "task": "classification",
    "names": ["cat", "dog"],
    "shape": list(SHAPE),
    "dtype": "float32",
    "resize": "crop",
    "scale": 1 / 255,
    "tokenizer": None,
}
BYTES = {"kind": "bytes", "padding": 256, "end_of_text": 256, "path": ""}
TEXTS = PICTURES | {"shape": [6], "dtype": "uint16", "resize": "", "tokenizer": BYTES}


def _picture(height: int = 20, width: int = 30) -> Any:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(pixels)


def _save(picture: Any, kind: str = "PNG", **options: Any) -> bytes:
    target = io.BytesIO()
    picture.save(target, kind, **options)
    return target.getvalue()


def _pictures(**facts: Any) -> PictureRows:
    return PictureRows(PICTURES | facts, picture_decoding)


def _brightness(rows: Any) -> Any:
    mean = rows.mean((1, 2, 3))
    return np.stack([1 - mean, mean], axis=1)


def test_every_form_of_a_picture_gives_the_same_row(tmp_path: Path) -> None:
    picture, coder = _picture(), _pictures()
    data = _save(picture)
    text = base64.b64encode(data).decode()
    file = tmp_path / "a.png"
    file.write_bytes(data)
    forms = [str(file), file, data, bytearray(data), text, f"data:image/png;base64,{text}", picture]
    rows = coder.encode([*forms, np.asarray(picture)], 0)
    assert rows.shape == (8, *SHAPE)
    assert rows.dtype == np.float32
    assert (rows == rows[0]).all()
    stored = picture_decoding.decode_file(data, SHAPE, "crop")
    assert np.array_equal(rows[0], np.multiply(stored, np.float32(1 / 255)))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_mode_becomes_the_channels_of_the_model(mode: str, channels: int) -> None:
    picture = (
        _picture().convert("L").convert("I").convert("I;16") if mode == "I;16" else _picture().convert(mode)
    )
    rows = _pictures(shape=[channels, 8, 8]).encode([picture], 0)
    assert rows.shape == (1, channels, 8, 8)


def test_a_picture_is_seen_as_the_camera_was_held() -> None:
    picture = Image.new("RGB", (8, 8))
    picture.paste((255, 255, 255), (0, 0, 8, 4))  # the upper half is bright
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    (row,) = _pictures().encode([_save(picture, "PNG", exif=exif)], 0)
    assert row[:, 4:].min() == 1
    assert row[:, :4].max() == 0


def test_the_answer_for_pictures_is_a_table() -> None:
    black, white = Image.new("RGB", (9, 9)), Image.new("RGB", (9, 9), (255, 255, 255))
    table = _pictures().predict([black, white], _brightness, None)
    assert list(table.columns) == ["label", "cat", "dog"]
    assert table["label"].tolist() == ["cat", "dog"]
    assert table["dog"].tolist() == pytest.approx([0, 1])


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (np.zeros((2, 9, 9, 3), np.uint8), 2),
        (np.zeros((9, 9, 3), np.uint8), 1),
        (np.zeros((5, 9, 9), np.uint8), 5),
        (np.zeros((9, 9), np.uint8), 1),
        (pd.DataFrame({"picture": [Image.new("L", (4, 4))] * 3}), 3),
        (pd.Series([Image.new("L", (4, 4))] * 3), 3),
        (Image.new("L", (4, 4)), 1),
        ([], 0),
    ],
)
def test_pictures_come_alone_or_together(given: Any, count: int) -> None:
    assert len(_pictures().predict(given, _brightness, None)) == count


def test_many_pictures_are_read_in_pieces() -> None:
    sizes: list[int] = []

    def run(rows: Any) -> Any:
        sizes.append(len(rows))
        return _brightness(rows)

    table = _pictures().predict([Image.new("L", (8, 8))] * 600, run, None)
    assert sizes == [256, 256, 88]
    assert table.index.tolist() == list(range(600))


def test_rows_as_stored_are_answered_with_an_array() -> None:
    rows = np.full((2, *SHAPE), 0.25, np.float64)
    assert np.allclose(_pictures().predict(rows, _brightness, None), [[0.75, 0.25]] * 2)
    tokens = np.zeros((2, 6), np.int64)
    assert TextRows(TEXTS, token_rows, {}).predict(tokens, lambda rows: rows.dtype, None) == np.uint16


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("none.png", "picture 1: there is no file `none.png`, and it is not Base64"),
        ("QUJD" * 100, "picture 1: it cannot be decoded"),
        (b"", "picture 1: it cannot be decoded"),
        (_save(_picture())[:200], "picture 1: it cannot be decoded"),
        (7, "not int"),
        (np.zeros((4, 4, 3), np.float32), r"not an array of float32 \[4, 4, 3\]"),
        (np.zeros((4, 4, 7), np.uint8), "picture 1"),
    ],
)
def test_what_is_no_picture_is_named(item: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _pictures().predict([_picture(), item], _brightness, None)


def test_texts_become_the_rows_of_the_shards() -> None:
    rows = TextRows(TEXTS, token_rows, {}).encode(["ab", "long text"], 0)
    assert rows.tolist() == [[97, 98, 256, 256, 256, 256], [*b"long t"]]
    assert rows.dtype == np.uint16


def test_a_tokenizer_puts_its_marks_around_texts(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[CLS]": 0, "[SEP]": 1, "[PAD]": 2, "good": 3, "bad": 4, "a": 5}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="bad"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    facts = TEXTS | {"tokenizer": BYTES | {"path": "tokenizer.json", "padding": 2}}
    coder = TextRows(facts, token_rows, {"tokenizer": str(tmp_path / "tokenizer.json")})
    assert coder.encode(["good bad"], 0).tolist() == [[0, 3, 4, 1, 2, 2]]


@pytest.mark.parametrize(("count", "expected"), [(1, "d"), (3, "def"), (9, "defg")])
def test_a_language_model_continues_a_text(count: int, expected: str) -> None:
    """The network answers the next letter; after `g` it ends the text."""

    def run(rows: Any) -> Any:
        assert rows.shape[1] <= 6
        following = np.where(rows == ord("g"), 256, rows + 1)
        return np.eye(257)[following]

    coder: RawRows = TextRows(TEXTS | {"task": "language_model"}, token_rows, {})
    table = coder.predict(["abc", "too long a text c"], run, {"max_new_tokens": count})
    assert table["text"].tolist() == [expected] * 2


def test_what_is_no_text_is_named() -> None:
    with pytest.raises(ValueError, match="text 1: give a string, not int"):
        TextRows(TEXTS, token_rows, {}).predict(["a", 7], lambda rows: rows, None)


def test_a_class_may_be_called_label() -> None:
    table = _pictures(names=["label", "dog"]).predict(_picture(), _brightness, None)
    assert list(table.columns) == ["predicted label", "label", "dog"]


def test_targets_of_pictures_have_no_label() -> None:
    facts = {"task": "regression", "names": ["age"]}
    table = _pictures(**facts).predict(_picture(), lambda rows: rows.mean((1, 2, 3))[:, None], None)
    assert list(table.columns) == ["age"]


def test_answers_have_the_index_of_what_they_answer() -> None:
    pictures = pd.Series([_picture(), _picture()], index=[7, 3])
    for given in (pictures, pictures.to_frame("picture")):
        assert _pictures().predict(given, _brightness, None).index.tolist() == [7, 3]


@pytest.mark.parametrize(
    ("task", "names", "columns"),
    [
        ("classification", ["no", "yes"], {"label": ["yes", "no"], "no": [-2, 3], "yes": [2, -3]}),
        ("classification", ["label", "yes"], {"predicted label": ["yes", "label"]}),
        ("multi_label", ["small", "red"], {"small": [-2, 3], "red": [2, -3]}),
        ("regression", ["price", "label"], {"price": [-2, 3], "label": [2, -3]}),
    ],
)
def test_the_answer_for_a_table_names_classes_and_targets(task: str, names: list[str], columns: Any) -> None:
    facts = {
        "task": task,
        "names": names,
        "columns": [{"name": "size", "kind": "number", "categories": [], "optional": False}],
    }
    coder = TableRows(facts, table_rows)
    given = pd.DataFrame({"unused": ["a", "b"], "size": [2, -3]}, index=[9, 4])
    answers = coder.predict(given, lambda rows: np.concatenate([-rows, rows], axis=1), None)
    first = [] if task != "classification" else [next(iter(columns))]
    assert list(answers.columns) == [*first, *names]
    assert answers.index.tolist() == [9, 4]
    for name, values in columns.items():
        assert answers[name].tolist() == values
    array = coder.predict([[2], [-3]], lambda rows: np.concatenate([-rows, rows], axis=1), None)
    assert array.index.tolist() == [0, 1]
    nothing = coder.predict(given[:0], lambda rows: np.zeros((0, 2), np.float32), None)
    assert list(nothing.columns) == list(answers.columns)
