"""Writes the rows of an `MLTable` as CSV, JSON Lines or Parquet files that need no description."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from wsshards.errors import UserError, clip_text
from wsshards.regular_files import open_regular
from wssources.mltable import (
    ENCODINGS,
    FILE,
    HEADERS,
    PATH_COLUMN,
    ElsewhereError,
    TableFile,
    list_table_files,
)
from wssources.mltable_steps import KINDS, Row, TableSteps
from wssources.parquet import check_footer, check_pages
from wssources.request import BLOCK_BYTES, open_data, unreadable

if TYPE_CHECKING:
    from wssources.unpack import Fetch

_ENDINGS = {"read_delimited": ".csv", "read_json_lines": ".jsonl", "read_parquet": ".parquet"}
_GROUP_BYTES = 16 << 20  # of a row group that is written
_HELD_BYTES = 256 << 20  # of Parquet pages in memory at a time


class Written(NamedTuple):
    """The rows of a table as plain files.

    Attributes:
        files: in the order of the table; one that needed no change is a link.
        types: `string`, `int`, `float`, `boolean` or `datetime`, of the columns of which the table says it.
        complete: whether all rows were written.
    """

    files: Sequence[Path]
    types: Mapping[str, str]
    complete: bool

    @property
    def column_kinds(self) -> dict[str, str]:
        """The kinds of these columns in training."""
        return {name: KINDS[word] for name, word in self.types.items()}


def unpack_table(
    table: TableFile, target: Path, scratch: Path, fetch: Fetch | None = None, most_bytes: int | None = None
) -> Written:
    """Write the rows of a table below `target`.

    Args:
        table: what the file `MLTable` says.
        target: folder to write to.
        scratch: folder for what is downloaded.
        fetch: downloads files with an address.
        most_bytes: about how much is written; None for all.

    Raises:
        UserError: a file is missing or cannot be read, or a transformation does not fit it.
        ElsewhereError: a file has an address, and there is no `fetch`.
    """
    files = _find_files(table, scratch, fetch)
    reader = table.reader[0] if table.reader else ""
    target.mkdir(exist_ok=True)
    steps = TableSteps(table.changes, cells=reader == "read_delimited", has_path=table.has_path)
    paths: list[Path] = []
    budget = _Budget(most_bytes)
    writer = _Writer(table, steps, budget)
    for number, (name, file) in enumerate(files):
        if steps.finished or budget.spent:
            break
        path = target / _name_target(name, reader, number, [each for each, _ in files])
        path.parent.mkdir(parents=True, exist_ok=True)
        paths.append(writer.write(name, file, path, number))
    return Written(paths, steps.column_types, not budget.spent)


class _Budget:
    """Bytes that may still be written."""

    def __init__(self, most: int | None) -> None:
        self._left = math.inf if most is None else float(most)
        self.spent = False

    def take(self, size: int) -> None:
        self._left -= size
        self.spent = self.spent or self._left < 0


class _Writer:
    def __init__(self, table: TableFile, steps: TableSteps, budget: _Budget) -> None:
        self._reader, self._settings = table.reader or ("", {})
        self._steps, self._budget = steps, budget
        self._header: list[str] = []  # of the first file

    def write(self, name: str, file: Path, path: Path, number: int) -> Path:
        """Write what a file becomes, and return where."""
        if self._is_plain():
            path.symlink_to(file.resolve())
            return path
        path = path.with_suffix("") if path.suffix.lower() == ".gz" else path
        try:
            if self._reader == "read_delimited":
                self._write_delimited(name, file, path, number)
            elif self._reader == "read_json_lines":
                self._write_json(name, file, path)
            else:
                self._write_parquet(name, file, path)
        except (OSError, ValueError, csv.Error) as error:  # pyarrow's own are such
            raise unreadable(name, error) from None
        return path

    def _is_plain(self) -> bool:
        """Whether files can be read as they are."""
        settings = self._settings
        if self._steps or self._steps.needs_path:
            return False
        if self._reader == "read_json_lines":
            return settings.get("invalid_lines", "error") == "error" and self._encoding == "utf-8-sig"
        same_header = settings.get("header", HEADERS[0]) in (HEADERS[0], HEADERS[2])
        return self._reader != "read_delimited" or (
            settings.get("delimiter", ",") == "," and same_header and self._encoding == "utf-8-sig"
        )

    @property
    def _encoding(self) -> str:
        return ENCODINGS[str(self._settings.get("encoding", "utf8")).lower()]

    def _write_delimited(self, name: str, file: Path, path: Path, number: int) -> None:
        mode = self._settings.get("header", HEADERS[0])
        with _open_text(file, self._encoding) as stream:
            rows = csv.reader(_limit_lines(stream), delimiter=self._settings.get("delimiter", ","))
            first = next(rows, None)
            if first is None:
                raise UserError(f"`{name}` is empty", "give it at least one row")
            own = first
            if mode == "no_header":
                own = [f"Column{place + 1}" for place in range(len(first))]
            elif mode == "from_first_file" and number:
                own = self._header
            self._header = self._header or own
            pending = [first] if own is not first else []
            self._write_cells(name, path, own, _chain(pending, rows))

    def _write_cells(self, name: str, path: Path, header: list[str], rows: Iterator[list[str]]) -> None:
        with path.open("w", encoding="utf-8", newline="") as stream:
            target = csv.writer(stream, lineterminator="\n")
            columns = self._select_columns(header)
            target.writerow(columns)
            for number, row in enumerate(rows, 1):
                if not row:
                    continue
                if len(row) != len(header):
                    raise UserError(
                        f"row {number} of `{name}` has {len(row)} values, and its header {len(header)}",
                        "give every row one value per column, and check `delimiter`",
                    )
                made = self._change(dict(zip(header, row, strict=True)), name)
                if made is not None:
                    cells = [made[column] for column in columns]
                    target.writerow(cells)
                    self._budget.take(sum(map(len, cells)) + len(cells))
                if self._steps.finished or self._budget.spent:
                    return

    def _write_json(self, name: str, file: Path, path: Path) -> None:
        drop = self._settings.get("invalid_lines") == "drop"
        checked = False
        with _open_text(file, self._encoding) as stream, path.open("w", encoding="utf-8") as target:
            for number, line in enumerate(_limit_lines(stream), 1):
                row = _parse_line(line)
                if row is None:
                    if drop or not line.strip():
                        continue
                    raise UserError(
                        f"line {number} of `{name}` is not a JSON object",
                        "write one JSON object a line, or say `invalid_lines: drop`",
                    )
                if not checked:
                    self._select_columns(list(row))
                    checked = True
                made = self._change(row, name)
                if made is not None:
                    text = json.dumps(made) + "\n"
                    target.write(text)
                    self._budget.take(len(text))
                if self._steps.finished or self._budget.spent:
                    return

    def _write_parquet(self, name: str, file: Path, path: Path) -> None:
        import pyarrow as pa  # the checker may have none
        from pyarrow import parquet

        with open_regular(file) as stream:
            check_footer(stream)
            metadata = parquet.read_metadata(stream)
            schema = metadata.schema.to_arrow_schema()
            unpacked = check_pages(stream, metadata, set(schema.names), ())
            if unpacked.held > _HELD_BYTES:
                raise ValueError(f"its pages that are read together take {unpacked.held:,} bytes")
            fields = {column: schema.field(column) for column in schema.names}
            columns = self._select_columns(schema.names)
            kept = pa.schema([fields.get(column) or pa.field(column, pa.string()) for column in columns])
            rows = max(1, min(1 << 14, (8 << 20) // max(1, unpacked.value, 8 * len(schema.names))))
            with parquet.ParquetWriter(path, kept) as target:
                for batch in parquet.ParquetFile(stream, metadata=metadata).iter_batches(rows):
                    made = [self._change(row, name) for row in batch.to_pylist()]
                    made = [row for row in made if row is not None]
                    if made:
                        target.write_batch(pa.RecordBatch.from_pylist(made, kept))
                        self._budget.take(batch.nbytes)
                    if self._steps.finished or self._budget.spent:
                        return

    def _select_columns(self, columns: Sequence[str]) -> list[str]:
        added = [PATH_COLUMN] if self._steps.needs_path and PATH_COLUMN not in columns else []
        return self._steps.select_columns([*columns, *added])

    def _change(self, row: Row, name: str) -> Row | None:
        return self._steps.apply({**row, PATH_COLUMN: f"/{name}"} if self._steps.needs_path else row)


def _find_files(table: TableFile, scratch: Path, fetch: Fetch | None) -> list[tuple[str, Path]]:
    """Return the names and the places of the files; those with an address are downloaded."""
    try:
        return [(name, table.folder / name) for name in list_table_files(table)]
    except ElsewhereError:
        if fetch is None:
            raise
    found: list[tuple[str, Path]] = []
    for number, (kind, text) in enumerate(table.paths):
        if "://" not in text:
            if text.startswith("azureml:"):
                raise UserError(
                    f"`{clip_text(text)}` in `{FILE}` is an asset, which has no files of its own here",
                    "bind `data` to that asset instead",
                )
            own = TableFile(table.folder, ((kind, text),), None, ())
            found += [(name, table.folder / name) for name in list_table_files(own)]
            continue
        folder = scratch / f"fetched-{number}"
        folder.mkdir()
        fetch(text, folder)
        found += [
            (path.relative_to(folder).as_posix(), path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ]
    return found


def _name_target(name: str, reader: str, number: int, names: Sequence[str]) -> str:
    """Return the name of the file that is written: the same, with the ending of its format."""
    ending = _ENDINGS.get(reader, "")
    path = PurePosixPath(name)
    suffixes = [each.lower() for each in path.suffixes]
    own = suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:]
    same = not ending or own[:1] == [ending]
    made = name if same else f"{name}{ending}"
    return made if names.count(name) == 1 else f"{number}-{PurePosixPath(made).name}"


def _open_text(file: Path, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_data(file), encoding=encoding, newline="")


def _limit_lines(stream: io.TextIOWrapper) -> Iterator[str]:
    while line := stream.readline(BLOCK_BYTES + 1):
        if len(line) > BLOCK_BYTES:
            raise ValueError(f"a line is longer than {BLOCK_BYTES:,} characters")
        yield line


def _chain(first: list[list[str]], rows: Iterator[list[str]]) -> Iterator[list[str]]:
    yield from first
    yield from rows


def _parse_line(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
