"""Finds the files of a source and their format, by their names and their first bytes."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from wsshards.errors import UserError
from wsshards.regular_files import MAX_FILES, check_regular, list_files, open_regular
from wssources.formats import LABEL_FILE, PICTURES, TABLES, TEXTS
from wssources.input_error import suggest
from wssources.planned_rows import SOURCES
from wssources.request import Request, is_packed, unreadable

FORMATS = ("auto", "csv", "parquet", "jsonl", "npz", "images", "text")
_SUGGESTED = 10_000
_LFS = b"version https://git-lfs.github.com/spec/"
_CONTENTS = (  # what a file of text is not, by its first bytes
    (b"\xff\xfe", "it is UTF-16, and is read as UTF-8"),
    (b"\xfe\xff", "it is UTF-16, and is read as UTF-8"),
    (b"PK\x03\x04", "it is a zip archive"),
    (b"\x1f\x8b", "it is packed with gzip, and its name does not end in `.gz`"),
    (b"PAR1", "it is a Parquet file"),
    (b"%PDF-", "it is a PDF"),
)
_CONVERT = (  # what is not read, and what it can be made into
    ((".xls", ".xlsx", ".ods"), "save the sheet as CSV"),
    ((".avif", ".cr2", ".dng", ".heic", ".heif", ".nef", ".svg"), "save the pictures as JPEG or PNG"),
    ((".avi", ".mov", ".mp4"), "save single pictures as JPEG or PNG"),
    ((".7z", ".tar", ".tgz", ".zip"), "unpack it"),
    ((".doc", ".docx", ".epub", ".odt", ".pdf"), "save the text as `.txt`"),
    ((".sqlite", ".db", ".feather", ".h5", ".pkl", ".rds"), "save it as CSV or Parquet"),
)
_BEGINS = {"parquet": (b"PAR1", "it is not a Parquet file"), "npz": (b"PK", "it is not an `.npz` archive")}


def find_files(source: str, data: str, limit: int = MAX_FILES) -> tuple[Path, list[str]]:
    """Return the file or folder that a source names, and the files in it; of a file, one empty name.

    Args:
        source: a path inside `data`; `.` means all of it.
        data: folder or file given as input, or empty.
        limit: how many files there may be.

    Raises:
        UserError: it is missing, leads out of `data`, or holds no files.
    """
    root = _root(source, data)
    called = name_source(source, root)
    try:
        names = sorted(list_files(root, limit)) if root.is_dir() else [""]
    except OSError as error:
        place = f"{called}/{error.filename}" if error.filename and error.errno == errno.ELOOP else called
        raise unreadable(place, error) from None
    if not names:
        raise UserError(f"`{called}` holds no files", "bind `data` to a folder with files in it")
    return root, names


def name_source(source: str, root: Path) -> str:
    """Return how messages call a source."""
    return source if source != "." else root.name


def choose_files(root: Path, names: Sequence[str], kind: str, called: str) -> tuple[str, list[str]]:
    """Return the format, which `auto` detects from the names, and the files of that format, or else all.

    Raises:
        UserError: there are several formats, or none that is known.
    """
    kinds = [_kind(name or root.name) for name in names]
    kind = kind if kind != "auto" else _detect(kinds, names, names[0] or root.name, called)
    return kind, [name for name, its in zip(names, kinds, strict=True) if its == kind] or list(names)


def check_content(request: Request, file: Path, kind: str) -> None:
    """Refuse a file whose first bytes are not those of its format; what cannot be opened is not judged.

    Raises:
        UserError: saying what it is instead.
    """
    name, head = request.show(file), _read_head(file)
    if head == _LFS:
        raise UserError(
            f"`{name}` is a pointer of Git LFS, not the data", "fetch the data with `git lfs pull`"
        )
    if head and kind in ("csv", "jsonl") and not is_packed(file):
        reason = next((reason for start, reason in _CONTENTS if head.startswith(start)), None)
        if reason is not None:
            if head[:1] in b"\xff\xfe":
                raise UserError(f"cannot read `{name}`: {reason}", "save the file as UTF-8")
            raise unreadable(name, reason)
    start, reason = _BEGINS.get(kind, (b"", ""))
    if head and not head.startswith(start):
        raise unreadable(name, reason)


def is_lfs_pointer(file: Path) -> bool:
    """Return whether a file is what Git LFS has in the place of a large one."""
    return _read_head(file) == _LFS


def _read_head(file: Path) -> bytes:
    try:
        with open_regular(file) as stream:
            return stream.read(len(_LFS))
    except OSError:
        return b""


def _root(source: str, data: str) -> Path:
    try:
        return _find_root(source, data)
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # no permission, a name that is too long, a cycle of links
        raise unreadable(Path(data).name if source == "." else source, error) from None


def _find_root(source: str, data: str) -> Path:
    if not data:
        close = suggest(f"builtin:{source}", SOURCES)
        raise UserError(
            f"source `{source}` is a path inside `data`, and `data` is not bound",
            close
            if "did you mean" in close
            else "bind `data`, or use `builtin:digits` or `builtin:python-source`",
        )
    base = Path(data)
    root = base / source if base.is_dir() else base
    if base.is_dir() and not root.resolve().is_relative_to(base.resolve()):
        raise UserError(f"source `{source}` leads out of `data`", "give a path inside the folder")
    if not root.exists():
        names = [entry.name for entry in islice(base.iterdir(), _SUGGESTED)] if base.is_dir() else []
        raise UserError(
            f"`data` has no `{source if base.is_dir() else base.name}`", suggest(source, sorted(names))
        )
    if not root.is_dir():
        check_regular(root)
    return root


def _kind(name: str) -> str:
    stem, suffix = os.path.splitext(name.rpartition("/")[2].lower())  # noqa: PTH122 - of millions of names
    if suffix == ".gz":
        suffix = os.path.splitext(stem)[1]  # noqa: PTH122
    if suffix in TABLES:
        return TABLES[suffix]
    if suffix in PICTURES:
        return "images"
    return "text" if suffix in TEXTS else ""


def _detect(formats: list[str], names: Sequence[str], first: str, called: str) -> str:
    kinds = sorted(set(formats) - {""})
    if "images" in kinds and "csv" in kinds and LABEL_FILE in names and formats.count("csv") == 1:
        kinds.remove("csv")  # it has the labels of the pictures
    # A note such as README.md beside the data is not data.
    kinds = [kind for kind in kinds if kind != "text"] or kinds
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise UserError(
            f"`{called}` holds files of several formats: {', '.join(kinds)}", "say which with `format`"
        )
    suffix = Path(first).suffix
    raise UserError(
        f"`{called}` holds no file of a known format, but `{suffix or Path(first).name}`",
        next(
            (help_ for names, help_ in _CONVERT if suffix.lower() in names), "say which it is with `format`"
        ),
    )
