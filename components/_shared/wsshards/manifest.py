"""The manifest of a shards folder: what the rows are, and which files hold them, with sizes and hashes.

A shards folder is `manifest.json` beside `train/shard-00000.arrow …`, `validation/shard-….arrow` and
`test/shard-….arrow`.
The manifest is written last, so a folder that has one is complete; it carries its own hash. Nothing here
needs more than the standard library.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from wsshards.errors import UserError, describe_error
from wsshards.regular_files import check_regular, read_regular
from wsshards.terms import (
    CLASSIFICATION,
    COLUMN_KINDS,
    DATE,
    DIVISIONS,
    HASH,
    NUMBER,
    REGRESSION,
    RESIZES,
    SPLITS,
    TASKS,
)

MANIFEST_NAME = "manifest.json"
FEED_NAME = (
    "feed.json"  # statistics of the rows, beside the manifest and beside a model that was trained on them
)
AGAIN = "write the folder again with a `shard_data` step"  # what helps against a faulty one
VERSION = 2
MAX_MANIFEST_BYTES = 16 * 1024 * 1024  # bytes of a manifest: 50,000 shards and more
MAX_SHARDS = 50_000  # of one side of the data


@dataclass(frozen=True)
class Shard:
    """One file of rows: its path inside the folder, rows, size in bytes and SHA-256 in hex."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Split:
    """The shards of one side of the data, in order, and the rows they hold together."""

    rows: int
    shards: tuple[Shard, ...]


@dataclass(frozen=True)
class Column:
    """One column of a table, and what encoders learnt about it from the training rows.

    A row of `features` has one number for a column, and two for a date. A missing value is NaN.

    Attributes:
        name: as in the file.
        kind: `number`, `boolean` (0 or 1), `category` (an index into `categories`, -1 for a value that no
            training row has) or `date` (days since 1970-01-01, and seconds of the day).
        categories: values of the training rows, in order.
        mean: of the training rows, for each number of the column; what a missing value is replaced by.
        optional: whether values may be missing.
        form: of dates that are not in ISO 8601, for `strptime`.
    """

    name: str
    kind: str = NUMBER
    categories: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    optional: bool = False
    form: str = ""

    @property
    def width(self) -> int:
        """Numbers that the column has in a row."""
        return 2 if self.kind == DATE else 1


@dataclass(frozen=True)
class Tokenizer:
    """What the tokens of a row mean.

    Attributes:
        kind: `bytes`, or `bpe` for the Hugging Face `tokenizer.json` in the folder.
        vocabulary: number of distinct tokens.
        padding: token that fills a row up, or None if rows are full.
        end_of_text: token between two documents, or None.
        path: file inside the folder; empty for bytes.
        sha256: of that file.
    """

    kind: str
    vocabulary: int
    padding: int | None = None
    end_of_text: int | None = None
    path: str = ""
    sha256: str = ""


BYTES = Tokenizer("bytes", 256)


@dataclass(frozen=True)
class Features:
    """The values of one row as readers get them.

    Attributes:
        name: Arrow column: `features`, or `tokens` for text.
        dtype: NumPy name of the values as read.
        shape: dimensions of one row; a language model's row is `[sequence_length + 1]` tokens.
        stored: NumPy name of the values on disk, where it differs from `dtype` (images are kept as bytes).
        scale: what a stored value is multiplied by to give the value as read.
        encoded: whether a row on disk is an image file, which readers decode to `shape`.
        resize: how pictures were brought to `shape`: `crop`, `stretch` or `pad`; empty for other rows.
        columns: of a table, in order; empty for other data, and for one list of numbers per row.
        tokenizer: of text.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    stored: str = ""
    scale: float = 1.0
    encoded: bool = False
    resize: str = ""
    columns: tuple[Column, ...] = ()
    tokenizer: Tokenizer | None = None

    @property
    def width(self) -> int:
        """Values in one row."""
        return math.prod(self.shape)

    @property
    def disk_dtype(self) -> str:
        """NumPy name of the values in the Arrow column."""
        return self.stored or self.dtype


@dataclass(frozen=True)
class Label:
    """What is predicted for a row: the Arrow column `label`, whose type follows from the task.

    A class is an index into `classes` (int64 `[n]`), targets of a regression are numbers (float64
    `[n, targets]`), and labels are one 0 or 1 for each class (uint8 `[n, classes]`).

    Attributes:
        names: the columns, fields or arrays that it comes from.
        classes: names of the classes; empty for a regression.
        mean: of each target over the training rows; empty for classes.
        deviation: standard deviation of each target over the training rows, or 1 where it is 0.
    """

    names: tuple[str, ...]
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()

    @property
    def outputs(self) -> int:
        """Values that a model predicts for a row."""
        return len(self.classes) or len(self.names)


@dataclass(frozen=True)
class Division:
    """How rows were divided into training, validation and test.

    Attributes:
        method: `hash` of the content, `given` by files, `group`, or `time`.
        column: of the group or time.
        kind: of the time: `date`, in seconds since 1970-01-01, or `number`.
        test_from: earliest time that tests; every row that trains or validates is older.
        rule: digest of what the hash of a row or group depends on besides its content, so that equal rows
            have equal hashes wherever it is the same; empty if no hash shows in which part a row was.
        test_below: the hash below which rows test: of each class, or one of all.
    """

    method: str = HASH
    column: str = ""
    kind: str = ""
    test_from: float | None = None
    rule: str = ""
    test_below: tuple[int, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """Everything `manifest.json` says."""

    task: str
    source: str
    seed: int
    features: Features
    label: Label | None
    train: Split
    validation: Split
    test: Split = Split(0, ())
    division: Division = Division()
    feed: str = ""  # SHA-256 of `feed.json` beside it
    version: int = VERSION

    def split(self, name: str) -> Split:
        """Return the split called `train`, `validation` or `test`."""
        if name not in SPLITS:
            raise ValueError(f"split must be one of {SPLITS}, got {name!r}")
        split: Split = getattr(self, name)
        return split


def label_shape(manifest: Manifest) -> tuple[int, ...]:
    """Return the dimensions of one row's label: none for a class."""
    if manifest.label is None or manifest.task == CLASSIFICATION:
        return ()
    return (manifest.label.outputs,)


def manifest_to_json(manifest: Manifest) -> str:
    """Return the text of `manifest.json`; the same manifest always gives the same bytes."""
    document = {
        "version": manifest.version,
        "task": manifest.task,
        "source": manifest.source,
        "seed": manifest.seed,
        "features": _without_defaults(manifest.features),
        "label": None if manifest.label is None else _without_defaults(manifest.label),
        "splits": {name: _without_defaults(manifest.split(name)) for name in SPLITS},
    }
    if manifest.division != Division():
        document["division"] = _without_defaults(manifest.division)
    if manifest.feed:
        document["feed"] = {"path": FEED_NAME, "sha256": manifest.feed}
    return json.dumps(add_checksum(document), indent=2, ensure_ascii=False) + "\n"


def manifest_from_json(text: str, where: str = MANIFEST_NAME) -> Manifest:
    """Return the manifest that `text` describes.

    Args:
        text: content of `manifest.json`.
        where: how messages call the file.

    Raises:
        UserError: the text is not JSON, is of another version, was changed after it was written, lacks a
            field, or has one of the wrong kind.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UserError(f"`{where}` is not JSON: {error}", help=AGAIN) from None
    except RecursionError:
        raise UserError(f"`{where}` is nested too deeply to be read", help=AGAIN) from None
    if not isinstance(data, dict):
        raise UserError(f"`{where}` holds {type(data).__name__}, not a JSON object", help=AGAIN)
    if data.get("version") != VERSION:
        raise UserError(
            f"`{where}` is of version {data.get('version')!r}, and this code reads version {VERSION}",
            help=AGAIN,
        )
    if not has_valid_checksum(data):
        raise UserError(f"`{where}` is not what was written: its own sha256 does not fit it", help=AGAIN)
    try:
        return _from_mapping(data)
    except KeyError as error:
        raise UserError(
            f"`{where}` lacks the field {error.args[0]!r}".replace("'", "`"), help=AGAIN
        ) from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(f"`{where}` is not a manifest of shards: {error}", help=AGAIN) from None


def read_manifest(folder: str | Path) -> Manifest:
    """Read the manifest of a shards folder.

    Raises:
        UserError: the folder has none (so it is not complete), or it cannot be read or understood.
    """
    path = Path(folder) / MANIFEST_NAME
    try:
        size = check_regular(path)
        if size > MAX_MANIFEST_BYTES:
            raise UserError(f"`{path}` has {size:,} bytes, more than any manifest", help=AGAIN)
        text = read_regular(path, MAX_MANIFEST_BYTES).decode("utf-8")
    except FileNotFoundError:
        raise UserError(
            f"`{folder}` has no `{MANIFEST_NAME}`, so it is not a complete shards folder",
            help="bind the `shards` output of a `shard_data` step that has finished",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read `{path}`: {describe_error(error)}", help=AGAIN) from None
    return manifest_from_json(text, str(path))


def _without_defaults(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON has them, without those that have their default."""
    entries = {}
    for field in fields(value):
        entry = getattr(value, field.name)
        if entry == field.default:
            continue
        if is_dataclass(entry):
            entry = _without_defaults(entry)
        elif isinstance(entry, tuple):
            entry = [_without_defaults(each) if is_dataclass(each) else each for each in entry]
        entries[field.name] = entry
    return entries


def _from_mapping(data: Mapping[str, Any]) -> Manifest:
    task, label, splits = str(data["task"]), data["label"], data["splits"]
    if task not in TASKS:
        raise ValueError(f"task is {task!r}")
    return Manifest(
        task=task,
        source=str(data["source"]),
        seed=int(data["seed"]),
        features=_features_from(data["features"]),
        label=None if label is None else _label_from(label, task),
        train=_split_from(splits["train"]),
        validation=_split_from(splits["validation"]),
        test=_split_from(splits["test"]),
        division=_division_from(data.get("division", {})),
        feed=str(data.get("feed", {}).get("sha256", "")),
    )


def _features_from(data: Mapping[str, Any]) -> Features:
    tokenizer, resize = data.get("tokenizer"), str(data.get("resize", ""))
    if resize not in RESIZES:
        raise ValueError(f"pictures are resized by {resize!r}")
    features = Features(
        name=str(data["name"]),
        dtype=str(data["dtype"]),
        shape=tuple(int(size) for size in data["shape"]),
        stored=str(data.get("stored", "")),
        scale=float(data.get("scale", 1.0)),
        encoded=bool(data.get("encoded", False)),
        resize=resize,
        columns=tuple(_column_from(column) for column in data.get("columns", ())),
        tokenizer=None if tokenizer is None else _tokenizer_from(tokenizer),
    )
    width = sum(column.width for column in features.columns)
    if features.columns and width != features.width:
        raise ValueError(f"a row has {features.width} numbers, and its columns {width}")
    return features


def _column_from(data: Mapping[str, Any]) -> Column:
    kind = str(data.get("kind", NUMBER))
    if kind not in COLUMN_KINDS:
        raise ValueError(f"a column is of kind {kind!r}")
    return Column(
        name=str(data["name"]),
        kind=kind,
        categories=tuple(str(value) for value in data.get("categories", ())),
        mean=tuple(float(value) for value in data.get("mean", ())),
        optional=bool(data.get("optional", False)),
        form=str(data.get("form", "")),
    )


def _tokenizer_from(data: Mapping[str, Any]) -> Tokenizer:
    padding, end = data.get("padding"), data.get("end_of_text")
    return Tokenizer(
        kind=str(data["kind"]),
        vocabulary=int(data["vocabulary"]),
        padding=None if padding is None else int(padding),
        end_of_text=None if end is None else int(end),
        path=_inside(data.get("path", "")),
        sha256=str(data.get("sha256", "")),
    )


def _label_from(data: Mapping[str, Any], task: str) -> Label:
    label = Label(
        names=tuple(str(name) for name in data["names"]),
        classes=tuple(str(name) for name in data.get("classes", ())),
        mean=tuple(float(value) for value in data.get("mean", ())),
        deviation=tuple(float(value) for value in data.get("deviation", ())),
    )
    counts = len(label.names), len(label.mean), len(label.deviation)
    if task == REGRESSION and len(set(counts)) > 1:
        raise ValueError(
            f"a regression has {counts[0]} targets, {counts[1]} means and {counts[2]} deviations"
        )
    return label


def _split_from(data: Mapping[str, Any]) -> Split:
    shards = tuple(
        Shard(_inside(s["path"]), int(s["rows"]), int(s["bytes"]), str(s["sha256"])) for s in data["shards"]
    )
    rows = int(data["rows"])
    if rows != sum(shard.rows for shard in shards):
        raise ValueError(f"a split has {rows} rows, and its shards {sum(shard.rows for shard in shards)}")
    return Split(rows, shards)


def _division_from(data: Mapping[str, Any]) -> Division:
    method, test_from = str(data.get("method", HASH)), data.get("test_from")
    if method not in DIVISIONS:
        raise ValueError(f"rows are divided by {method!r}")
    if test_from is not None and not math.isfinite(test_from):
        raise ValueError(f"rows test from {test_from!r}")
    return Division(
        method,
        str(data.get("column", "")),
        str(data.get("kind", "")),
        None if test_from is None else float(test_from),
        str(data.get("rule", "")),
        tuple(int(limit) for limit in data.get("test_below", ())),
    )


def _inside(path: object) -> str:
    # A manifest may come from elsewhere: it must not lead a reader out of its folder.
    parts = PurePosixPath(str(path))
    if parts.is_absolute() or ".." in parts.parts:
        raise ValueError(f"shard path {str(path)!r} leaves the folder")
    return str(path)


CHECKSUM_KEY = "sha256"


def add_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with its checksum as the last entry."""
    return {**content, CHECKSUM_KEY: _digest(content)}


def has_valid_checksum(document: Mapping[str, Any]) -> bool:
    """Whether an object is unchanged since its checksum was added; without a checksum it is not."""
    content = {name: value for name, value in document.items() if name != CHECKSUM_KEY}
    return document.get(CHECKSUM_KEY) == _digest(content)


def _digest(content: Mapping[str, Any]) -> str:
    # Layout and order of the text do not matter.
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
