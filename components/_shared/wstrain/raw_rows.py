"""Answers for tables, pictures and texts as their users have them, with the exported program of a network.

This file travels with the exported model and imports none of our packages; what decodes tables, pictures or
texts travels beside it.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Array = npt.NDArray[Any]
Run = Callable[[Array], Array]
AT_ONCE = 256  # pictures or texts: bounds what is decoded
NEW_TOKENS = 32  # that a language model adds unless it is told another number


def make_coder(artifacts: Mapping[str, str]) -> RawRows | TableRows:
    """Return what reads the inputs of the model with these files."""
    facts = json.loads(Path(artifacts["facts"]).read_text(encoding="utf-8"))
    decoding = _load_module(artifacts["decoding"])
    if facts["columns"]:
        return TableRows(facts, decoding)
    return TextRows(facts, decoding, artifacts) if facts["tokenizer"] else PictureRows(facts, decoding)


class TableRows:
    """Tables: DataFrames with the columns of the data, by name.

    Args:
        facts: ``task``, ``names`` and ``columns``.
        decoding: the module that travels beside this one.
    """

    def __init__(self, facts: Mapping[str, Any], decoding: Any) -> None:
        self._facts, self._code = facts, decoding.RowCoder(facts["columns"])

    def predict(self, given: Any, run: Run, params: Mapping[str, Any] | None) -> pd.DataFrame:
        """Answer the rows of a table with a table.

        Raises:
            ValueError: a row is none of what the model takes.
        """
        del params
        return _keep_index(name_answers(run(self._code(given)), self._facts), given)


class RawRows:
    """Turns inputs into rows as shards store them, and what the program answers into a table.

    Args:
        facts: ``task``, ``names``, ``shape``, ``resize``, ``scale``, ``dtype`` and ``tokenizer``.
        decoding: the module that travels beside this one.
    """

    def __init__(self, facts: Mapping[str, Any], decoding: Any) -> None:
        self._facts, self._decoding = facts, decoding

    def predict(self, given: Any, run: Run, params: Mapping[str, Any] | None) -> Any:
        """Answer inputs: a table for pictures or texts, and an array for rows as stored.

        Raises:
            ValueError: an input is none of what the model takes.
        """
        if self.holds_rows(given):
            return run(np.asarray(given).astype(self._facts["dtype"], copy=False))
        items = _list_items(given)
        groups = [items[start : start + AT_ONCE] for start in range(0, max(len(items), 1), AT_ONCE)]
        tables, place = [], 0
        for group in groups:
            tables.append(self.answer(group, place, run, params or {}))
            place += len(group)
        return _keep_index(pd.concat(tables, ignore_index=True), given)

    def holds_rows(self, given: Any) -> bool:
        """Whether inputs are rows as shards store them."""
        raise NotImplementedError

    def encode(self, items: Sequence[Any], place: int) -> Array:
        """Return such rows for inputs, the first of which has the number ``place``."""
        raise NotImplementedError

    def answer(self, items: Sequence[Any], place: int, run: Run, params: Mapping[str, Any]) -> pd.DataFrame:
        """Return a row for each input: the likeliest class and probabilities, or targets."""
        del params
        return name_answers(run(self.encode(items, place)), self._facts)


class PictureRows(RawRows):
    """Pictures: paths, bytes of files, Base64, Pillow images, or uint8 ``[height, width, channels]``."""

    def holds_rows(self, given: Any) -> bool:
        """Whether inputs are numbers ``[n, channels, height, width]``, other than bytes."""
        numbers = isinstance(given, np.ndarray) and given.dtype.kind in "fiu"
        return numbers and given.dtype != np.uint8

    def encode(self, items: Sequence[Any], place: int) -> Array:
        """Return pictures as a model reads them, ``[n, channels, height, width]``."""
        shape, dtype = tuple(self._facts["shape"]), np.dtype(self._facts["dtype"])
        rows = np.empty((len(items), *shape), np.uint8)
        number = 0
        try:
            for number, item in enumerate(items):
                rows[number] = self._decode(item, shape)
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"picture {place + number}: {error}") from None
        scaled: Array = np.multiply(rows, dtype.type(self._facts["scale"]), dtype=dtype)
        return scaled

    def _decode(self, item: Any, shape: tuple[int, ...]) -> Array:
        resize = self._facts["resize"]
        if isinstance(item, str | os.PathLike):
            item = _read_file(item)
        if isinstance(item, bytes | bytearray | memoryview):
            return np.asarray(self._decoding.decode_file(bytes(item), shape, resize))
        if isinstance(item, np.ndarray) and item.dtype == np.uint8 and item.ndim in (2, 3):
            from PIL import Image  # only models of pictures need it

            item = Image.fromarray(item[:, :, 0] if item.shape[2:] == (1,) else np.ascontiguousarray(item))
        if not hasattr(item, "getexif"):
            raise ValueError(
                "give a path, the bytes of a file or their Base64, a Pillow image, or a uint8 array"
                f" [height, width, channels], not {_describe(item)}"
            )
        return np.asarray(self._decoding.decode_image(item, shape, resize))


class TextRows(RawRows):
    """Texts: a row of tokens for each, or for a language model a continuation."""

    def __init__(self, facts: Mapping[str, Any], decoding: Any, artifacts: Mapping[str, str]) -> None:
        super().__init__(facts, decoding)
        self._described = facts["tokenizer"]
        self._file = artifacts.get("tokenizer", "")  # none for bytes
        self._tokenizer: Any = None

    def holds_rows(self, given: Any) -> bool:
        """Whether inputs are tokens ``[n, tokens]``."""
        return isinstance(given, np.ndarray) and given.dtype.kind in "iuf"

    def encode(self, items: Sequence[Any], place: int) -> Array:
        """Return texts as rows of tokens ``[n, tokens]``."""
        marks = self._decoding.find_marks(self._load()) if self._file else ((), ())
        tokens = self._tokens(items, place)
        width, padding = self._facts["shape"][0], self._described["padding"]
        return np.asarray(self._decoding.mark_rows(tokens, width, padding, marks, self._facts["dtype"]))

    def answer(self, items: Sequence[Any], place: int, run: Run, params: Mapping[str, Any]) -> pd.DataFrame:
        """Return classes, or of a language model ``text``: the likeliest continuation of each text."""
        if self._facts["task"] != "language_model":
            return super().answer(items, place, run, params)
        count = int(params.get("max_new_tokens", NEW_TOKENS))
        added = [self._continue(tokens, run, count) for tokens in self._tokens(items, place)]
        return pd.DataFrame({"text": added}, dtype=object)

    def _continue(self, tokens: Array, run: Run, count: int) -> str:
        """Return the text of the likeliest tokens, one after the other, up to the end of the text."""
        width, end = self._facts["shape"][0], self._described["end_of_text"]
        if not len(tokens):  # a document begins after the end of another one
            tokens = np.array([end if end is not None else 0], np.int64)
        added: list[int] = []
        while len(added) < count:
            window = np.concatenate([tokens, np.array(added, np.int64)])[-width:]
            scores = run(window[None].astype(self._facts["dtype"]))[0, -1]
            best = int(scores.argmax())
            if best == end:
                break
            added.append(best)
        if self._file:
            return str(self._load().decode(added))
        return bytes(each for each in added if each < 256).decode("utf-8", "replace")

    def _tokens(self, items: Sequence[Any], place: int) -> list[Array]:
        wrong = next((number for number, item in enumerate(items) if not isinstance(item, str)), None)
        if wrong is not None:
            raise ValueError(f"text {place + wrong}: give a string, not {_describe(items[wrong])}")
        if not self._file:
            return list(self._decoding.encode_bytes(items))
        return list(self._decoding.encode_texts(self._load(), items))

    def _load(self) -> Any:
        if self._tokenizer is None:
            import tokenizers  # only models of such texts need it

            self._tokenizer = self._decoding.prepare_tokenizer(tokenizers.Tokenizer.from_file(self._file))
        return self._tokenizer


def name_answers(answers: Array, facts: Mapping[str, Any]) -> pd.DataFrame:
    """Return a row for each answer: the likeliest class and probabilities, or targets."""
    names = facts["names"]
    table = pd.DataFrame(answers, columns=names)
    if facts["task"] == "classification":
        best = answers.argmax(1) if len(answers) else np.zeros(0, np.int64)
        table.insert(0, name_label(names), np.array(names, object)[best])
    return table


def name_label(names: Sequence[str]) -> str:
    """Return the name of the column with the likeliest class, which no class may have."""
    return next(name for name in ("label", "predicted label", "predicted class") if name not in names)


def _keep_index(table: pd.DataFrame, given: Any) -> pd.DataFrame:
    """Give answers the index of what they answer, so that pandas puts them beside it."""
    return table.set_axis(given.index, axis=0) if isinstance(given, pd.DataFrame | pd.Series) else table


def _list_items(given: Any) -> list[Any]:
    """Return the inputs of a call one by one."""
    if isinstance(given, pd.DataFrame | Mapping):
        columns = list(given)
        if len(columns) != 1:
            raise ValueError(f"the model takes one column, not {len(columns)}")
        given = given[columns[0]]
    if isinstance(given, np.ndarray) and given.dtype == np.uint8:
        alone = given.ndim == 2 or (given.ndim == 3 and given.shape[2] in (1, 3, 4))
        return [given] if alone else list(given)
    if isinstance(given, pd.Series | np.ndarray):
        return list(given.reshape(-1) if isinstance(given, np.ndarray) else given)
    return list(given) if isinstance(given, list | tuple | Iterator) else [given]


def _read_file(name: str | os.PathLike[str]) -> bytes:
    """Return the bytes of the file with this name, or of this Base64."""
    with contextlib.suppress(OSError, ValueError):  # Base64 is too long for a name
        if Path(name).is_file():
            return Path(name).read_bytes()
    text = os.fspath(name)
    try:
        data = text.partition(";base64,")[2] if text.startswith("data:") else text
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"there is no file `{text[:100]}`, and it is not Base64") from None


def _describe(item: Any) -> str:
    if isinstance(item, np.ndarray):
        return f"an array of {item.dtype} {list(item.shape)}"
    return type(item).__name__


def _load_module(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)  # in no list of modules: another model has its own
    spec.loader.exec_module(module)
    return module
