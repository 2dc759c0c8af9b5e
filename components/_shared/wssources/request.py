"""Which of a user's files are to be read, how they are opened, and the sentences for what cannot be."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, overload

from wsshards.errors import UserError
from wsshards.regular_files import open_regular
from wssources.media_options import MediaOptions

if TYPE_CHECKING:
    from wssources.split_settings import SplitSettings

BLOCK_BYTES = 8 << 20  # of text, parsed at a time: no line is longer
ROW_SHARE = 16  # of the memory limit: reader, sorter and writer hold about this many copies of a row
REFUSE, FILL, DROP = MISSING = ("refuse", "fill", "drop")  # rows without a value


class Files(Sequence[Path]):
    """Files of a folder, stored as names, because millions of path objects would take gigabytes."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._root, self._names = root, names

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> Files: ...
    def __getitem__(self, index: int | slice) -> Path | Files:
        if isinstance(index, slice):
            return Files(self._root, self._names[index])
        return self._root / self._names[index]


class Request(NamedTuple):
    """What the user wants to read.

    Attributes:
        root: the folder or file.
        files: those of it that are read.
        label: label column or array, or several with commas between them.
        features: feature columns or array; empty means all except the label.
        sequence_length: tokens a language model predicts per row.
        memory: memory limit in bytes.
        called: what messages call the root, where they do not name files by their path inside of it.
        task: what is to be learned; `auto` decides by the label.
        missing: what is done about rows without a value: `refuse`, `fill` or `drop`.
        column_types: kinds of columns that are not decided by their values.
        split: what divides the rows; None divides them by hash.
        seed: of the hash of a row.
        media: how pictures and text are read.
    """

    root: Path
    files: Sequence[Path]
    label: str
    features: tuple[str, ...]
    sequence_length: int
    memory: int
    called: str = ""
    task: str = "auto"
    missing: str = REFUSE
    column_types: Mapping[str, str] = {}
    split: SplitSettings | None = None
    seed: int = 0
    media: MediaOptions = MediaOptions()

    @property
    def name(self) -> str:
        """What messages call the data."""
        return self.called or self.root.name

    def show(self, path: Path) -> str:
        """Return the name of a file in messages: its path inside the data."""
        if path == self.root:
            return self.called or path.name
        name = path.relative_to(self.root).as_posix()
        return f"{self.called}/{name}" if self.called else name


def check_row(what: str, row_bytes: int, memory: int) -> None:
    """Raise UserError if a row is empty or too large for the memory limit."""
    if row_bytes < 1:
        raise UserError(f"{what} has no values", "give every row at least one number")
    if row_bytes > memory // ROW_SHARE:
        limit, need = memory >> 20, -(-row_bytes * ROW_SHARE >> 20)
        raise UserError(
            f"{what} takes {row_bytes:,} bytes, and a `memory_limit_mib` of {limit:,} has room for rows of "
            f"{memory // ROW_SHARE:,}",
            f"make the rows smaller, or give a `memory_limit_mib` of at least {need:,}",
        )


def is_packed(file: Path) -> bool:
    """Return whether a text file is compressed with gzip."""
    return file.suffix.lower() == ".gz"


def open_data(file: Path) -> IO[bytes]:
    """Open a regular file and decompress it if needed; reading it raises only OSError."""
    stream = open_regular(file)
    if not is_packed(file):
        return stream
    from wssources.unpack_limits import LimitedGzip  # few files are compressed

    return io.BufferedReader(LimitedGzip(stream), 1 << 20)


def unreadable(name: str, reason: object) -> UserError:
    """Return the error for a file that cannot be opened or decoded."""
    text = (reason.strerror or str(reason)) if isinstance(reason, OSError) else str(reason)
    if isinstance(reason, RecursionError):
        text = "it is nested too deeply"
    if isinstance(reason, UnicodeDecodeError):
        return UserError(f"cannot read `{name}`: it is not UTF-8", "save the file as UTF-8")
    return UserError(
        f"cannot read `{name}`: {first_line(text)}", "check that the file is whole and is what its name says"
    )


def first_line(text: str) -> str:
    """Return the first line of a library's message, at most 160 characters, as part of a sentence."""
    line = text.strip().splitlines()[0] if text.strip() else "unknown reason"
    return line[:160].rstrip(". ")
