"""Documents of a corpus: whole text files, or rows of a column, each with its label where there is one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from wsshards.errors import UserError, clip_text
from wsshards.regular_files import open_regular
from wsshards.terms import CATEGORY, CLASSIFICATION, LANGUAGE_MODEL, MULTI_LABEL, REGRESSION
from wssources import json_rows, row_faults
from wssources.input_error import blame_input, suggest
from wssources.media_options import BYTES_TOKENIZER, MediaOptions
from wssources.parquet_head import kind_of_type
from wssources.picture_labels import DEFAULT_LABEL
from wssources.request import DROP, FILL, Request, unreadable
from wssources.row_division import RowDivision, find_row_division
from wssources.split_settings import UNDECIDED, find_parts, refuse_window
from wssources.table_plan import HEAD_BYTES, LABEL_HELP, Head
from wssources.tasks import AUTO, LabelValues, check_possible, decide_task, name_class
from wssources.unpack_limits import FREE_BYTES

TABLES_OF_TEXT = ("csv", "jsonl", "parquet")
_BLOCK = 1 << 20  # bytes of a file that are read, and turned into tokens, at a time
_HEAD_ROWS = 100  # that show what a column of Parquet holds
_LEAST_PIECE, _PIECES = 4 << 10, 100  # a corpus of few documents is divided into about so many


@dataclass(frozen=True)
class Document:
    """A text and its label.

    Attributes:
        name: of the place in messages.
        blocks: starts the text in pieces; pieces but the last end with a line.
        label: of a classification.
        part: that a file, a column or a date puts it in.
        key: that it is divided by, or None for the hash of its text.
    """

    name: str
    blocks: Callable[[], Iterator[str]]
    label: str = ""
    part: int = UNDECIDED
    key: int | None = None

    def hash(self, seed: int) -> int:
        """Return 64 bits of the text's hash; equal texts have equal ones."""
        digest = hashlib.blake2b(digest_size=8, key=str(seed).encode()[:64])
        for block in self.blocks():
            digest.update(block.encode())
        return int.from_bytes(digest.digest(), "little")


def is_tokenized(kind: str, media: MediaOptions, task: str) -> bool:
    """Whether rows are made of documents, and not of windows of bytes or of numbers."""
    if kind == "text":
        return media.tokenizer != BYTES_TOKENIZER or task == CLASSIFICATION
    return kind in TABLES_OF_TEXT and bool(media.text)


def find_task(request: Request, kind: str) -> str:
    """Return what a corpus is for: `classification` where its documents have labels.

    Raises:
        UserError: the text column, or the label that was asked for, does not exist, or text is not for the
            task that was asked for.
    """
    media = request.media
    if request.task in (REGRESSION, MULTI_LABEL):
        check_possible(request.task, CLASSIFICATION if media.text else LANGUAGE_MODEL, request.name)
    if kind == "text":
        if media.text:
            raise UserError(
                f"`text` is `{clip_text(media.text)}`, and `{request.name}` holds files of text, not a table",
                "leave `text` out: a file is a document",
            )
        return CLASSIFICATION if request.task == CLASSIFICATION else LANGUAGE_MODEL
    columns = _columns(request, kind, request.files[0])
    if media.text not in columns:
        raise UserError(
            f"`{request.show(request.files[0])}` has no text column `{clip_text(media.text)}`",
            suggest(media.text, columns),
        )
    if request.task == LANGUAGE_MODEL:
        return LANGUAGE_MODEL
    if request.label in columns:
        return CLASSIFICATION
    if request.task == AUTO and request.label == DEFAULT_LABEL:
        return LANGUAGE_MODEL
    raise UserError(
        f"`{request.show(request.files[0])}` has no label column `{clip_text(request.label)}`",
        suggest(request.label, columns),
    )


def check_text_labels(request: Request, labels: LabelValues) -> None:
    """Refuse the labels of a column of all texts if they are no classes; raises InputError."""
    with blame_input("label-not-a-class", "label"):
        decision = decide_task(request.task, [labels], sampled=False, called=request.name)
        if decision.task != CLASSIFICATION:
            raise UserError(
                f"{decision.reason}, and texts are for a classification",
                "name a column of classes in `label`, or say `task: classification`",
            )


def check_text_folders(request: Request) -> None:
    """Refuse a text outside of a class folder; raises UserError."""
    given = request.split is not None and request.split.given
    for file in request.files:
        parts = () if file == request.root else file.relative_to(request.root).parts
        if len(parts) <= (2 if given else 1):
            raise UserError(
                f"text `{request.show(file)}` is in no class folder"
                + (" of its part, such as `train/cat`" if given else ""),
                "put each text in a folder named for its class, or leave `task: classification` out",
            )


def read_corpus(request: Request, kind: str, *, labelled: bool) -> Iterator[Document]:
    """Yield the documents in the order of their files and rows.

    Raises:
        UserError: a file cannot be read, is not UTF-8, or a row has no text.
    """
    if kind != "text":
        yield from _read_rows(request, kind, labelled=labelled)
        return
    parts = find_parts(request)
    for file in request.files:
        label = file.relative_to(request.root).parts[1 if parts else 0] if labelled else ""
        yield Document(request.show(file), _file_blocks(request, file), label, parts.get(file, UNDECIDED))


def divide(documents: Iterator[Document], size: int) -> Iterator[Document]:
    """Divide documents into pieces of about `size` bytes of whole lines."""
    for document in documents:
        pending: list[str] = []
        length = 0
        for block in document.blocks():
            for line in block.splitlines(keepends=True):
                pending.append(line)
                length += len(line)
                if length >= size:
                    yield _whole("".join(pending), document)
                    pending, length = [], 0
        if pending:
            yield _whole("".join(pending), document)


def piece_size(total: int) -> int:
    """Return into what pieces a corpus of few documents and `total` bytes is divided."""
    return min(_BLOCK, max(_LEAST_PIECE, total // _PIECES))


def _whole(text: str, document: Document) -> Document:
    return replace(document, blocks=lambda: iter([text]))


def _file_blocks(request: Request, file: Path) -> Callable[[], Iterator[str]]:
    def blocks() -> Iterator[str]:
        rest, done = b"", 0
        try:
            with open_regular(file) as stream:
                while data := stream.read(_BLOCK):
                    head, newline, tail = (rest + data).rpartition(b"\n")
                    block, rest = head + newline, tail
                    if len(rest) > 8 * _BLOCK:
                        raise UserError(
                            f"a line of `{request.show(file)}` is longer than {8 * _BLOCK:,} bytes",
                            "break it into lines, as a text that is read piece by piece needs them",
                        )
                    if block:
                        yield _decode(request, file, block, done)
                        done += len(block)
                if rest:
                    yield _decode(request, file, rest, done)
        except OSError as error:
            raise unreadable(request.show(file), error) from None

    return blocks


def _decode(request: Request, file: Path, data: bytes, start: int) -> str:
    try:
        return data.decode("utf-8-sig" if start == 0 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"`{request.show(file)}` is not UTF-8 at byte {start + error.start:,}",
            "save it as UTF-8, or use `tokenizer: bytes`, which takes any bytes",
        ) from None


def _read_rows(request: Request, kind: str, *, labelled: bool) -> Iterator[Document]:
    wanted = (request.media.text, *((request.label,) if labelled else ()))
    division, parts = find_text_division(request, kind), find_parts(request)
    names = (*wanted, *division.names)
    for file in request.files:
        columns = _columns(request, kind, file)
        for name in names:
            if name not in columns:
                raise UserError(
                    f"`{request.show(file)}` has no column `{clip_text(name)}`", suggest(name, columns)
                )
        for row, (text, *others) in _READERS[kind](request, file, names):
            where, rest = f"row {row:,} of `{request.show(file)}`", others[: len(wanted) - 1]
            fault = _find_fault(request, text, rest)
            if fault is None:
                label = name_class(rest[0]) if rest else ""
                values = dict(zip(division.names, others[len(rest) :], strict=True))
                part = parts.get(file, UNDECIDED) or division.find_part(values, where)
                key = division.find_key(values, where)
                yield Document(where, lambda text=text: iter([text]), label, part, key)  # type: ignore[misc]
            elif not _leaves_out(request, text, rest):
                raise UserError(f"{where} {fault[0]}", fault[1])


def find_text_division(request: Request, kind: str) -> RowDivision:
    """Return the columns of tables of text that divide their rows; raises InputError if they cannot."""
    split = request.split
    refuse_window(split, request.name, "texts")
    if kind == "text" or split is None or not (split.columns or split.by_time):
        return RowDivision()
    if kind != "parquet":
        read = row_faults.read_csv_head if kind == "csv" else json_rows.read_json_head
        return find_row_division(request, read(request, request.files, HEAD_BYTES))
    schema = _read_schema(request, request.files[0])
    kinds = {field.name: kind_of_type(field.type) for field in schema}
    head = Head(
        schema.names, kinds={name: kind for name, kind in kinds.items() if kind not in (None, CATEGORY)}
    )
    if split.time in schema.names:  # dates may be written as text
        place = schema.names.index(split.time)
        for _, (value,) in islice(_read_parquet(request, request.files[0], [split.time]), _HEAD_ROWS):
            head.rows.append([value if index == place else None for index in range(len(schema.names))])
    return find_row_division(request, head)


def _find_fault(request: Request, text: Any, rest: Sequence[Any]) -> tuple[str, str] | None:
    """Return what is wrong with a row, and how to correct it."""
    column = f"in column `{clip_text(request.media.text)}`"
    if text is not None and not isinstance(text, str):
        return (
            f"has {type(text).__name__}, not text, {column}",
            "name a column of text in `text`, or write each value as one text",
        )
    if text is None or not text.strip():
        return f"has no text {column}", "leave out rows without text: `missing: drop`"
    if rest and _is_empty(*rest):
        return f"has no label in column `{clip_text(request.label)}`", LABEL_HELP
    return None


def _leaves_out(request: Request, text: Any, rest: Sequence[Any]) -> bool:
    """Return whether a row without a text or a label is left out; nothing stands for either."""
    if request.missing == DROP:
        return _is_empty(text, *rest)
    return request.missing == FILL and _is_empty(*rest)


def _is_empty(*values: Any) -> bool:
    return any(value is None or (isinstance(value, str) and not value.strip()) for value in values)


def _columns(request: Request, kind: str, file: Path) -> Sequence[str]:
    if kind == "csv":
        return row_faults.csv_header(request, file)
    if kind == "jsonl":
        return list(json_rows.first_object(request, file))
    return list(_read_schema(request, file).names)


def _read_schema(request: Request, file: Path) -> Any:
    from pyarrow import ArrowException, parquet  # the checker has none

    try:
        with open_regular(file) as stream:
            return parquet.read_schema(stream)
    except (OSError, ValueError, ArrowException) as error:
        raise unreadable(request.show(file), error) from None


Rows = Iterator[tuple[int, list[Any]]]


def _read_csv(request: Request, file: Path, names: Sequence[str]) -> Rows:
    header = row_faults.csv_header(request, file)
    places = [header.index(name) for name in names]
    for number, (_, row) in enumerate(row_faults.read_csv_cells(request, file, header)):
        yield number + 1, [row[place] for place in places]


def _read_jsonl(request: Request, file: Path, names: Sequence[str]) -> Rows:
    number = 0
    for block in json_rows.line_blocks(request, file, _BLOCK):
        for line in block.splitlines():
            if not line.strip():
                continue
            number += 1
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(
                    f"row {number:,} of `{request.show(file)}` is not JSON: {str(error)[:80]}",
                    "write one JSON object a line",
                ) from None
            if not isinstance(row, dict):
                raise UserError(
                    f"row {number:,} of `{request.show(file)}` is not a JSON object",
                    "write one JSON object a line",
                )
            yield number, [row.get(name) for name in names]


def _read_parquet(request: Request, file: Path, names: Sequence[str]) -> Rows:
    from pyarrow import ArrowException, parquet  # the checker has none

    from wssources.parquet import check_footer, check_pages

    number = 0
    try:
        with open_regular(file) as stream:
            check_footer(stream)
            metadata = parquet.read_metadata(stream)
            unpacked = check_pages(stream, metadata, set(names), [])
            room = max(request.memory // 2, FREE_BYTES)
            if unpacked.held > room:
                reason = f"{unpacked.held:,} bytes of it are in memory at a time, and may be {room:,}"
                raise ValueError(reason)  # noqa: TRY301
            rows = max(1, min(1024, _BLOCK // max(1, unpacked.value)))
            opened = parquet.ParquetFile(stream, metadata=metadata)
            for batch in opened.iter_batches(rows, columns=list(names)):
                for values in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                    number += 1
                    yield number, list(values)
    except (OSError, ValueError, ArrowException) as error:
        raise unreadable(request.show(file), error) from None


_READERS: dict[str, Callable[[Request, Path, Sequence[str]], Rows]] = {
    "csv": _read_csv,
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
}
