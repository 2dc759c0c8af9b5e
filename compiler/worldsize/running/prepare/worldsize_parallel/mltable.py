"""The files of an MLTable, or the pandas DataFrame that its transformations make of them.

The package ``wssources``, which lies beside this one where the input is an MLTable, reads it as for training.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wsshards.errors import UserError
from wssources import mltable
from wssources.mltable import FILE, TableFile
from wssources.mltable_files import unpack_table

from .settings import DriverError


@contextmanager
def _as_driver_error() -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise DriverError(f"{error.message}: {error.help}" if error.help else error.message) from None
    except mltable.ElsewhereError as error:
        raise DriverError(
            f"`{error}` in `{FILE}` is not on this machine: download it, and name it by a local path"
        ) from None


def read_table(path: Path) -> TableFile:
    """Read the MLTable file of a folder.

    Raises:
        DriverError: There is none, or it says what is not supported.
    """
    folder = path.parent if path.is_file() else path
    if not (folder / FILE).is_file():
        raise DriverError(f"the input is an mltable, but `{path.name}` has no file named `{FILE}`")
    with _as_driver_error():
        return mltable.read_table_file(folder)


def list_files(table: TableFile) -> list[str]:
    """The files of a table, in its order.

    Raises:
        DriverError: One is not there.
    """
    with _as_driver_error():
        return [str(table.folder / name) for name in mltable.list_table_files(table)]


def read_frame(table: TableFile) -> Any:
    """The DataFrame that a table with a reader makes.

    Raises:
        DriverError: pandas is missing, or a file cannot be read.
    """
    try:
        import pandas as pd  # only tables need it
    except ImportError as error:
        raise DriverError("reading a table needs pandas: add `pandas` to the environment") from error

    reader, settings = table.reader or ("", {})
    try:
        with _as_driver_error(), tempfile.TemporaryDirectory() as scratch:
            rows = unpack_table(table, Path(scratch, "rows"), Path(scratch))
            frames = [_read_file(pd, reader, settings, file.resolve(), rows.types) for file in rows.files]
            frame = pd.concat(frames, ignore_index=True)
            for name in rows.types:
                frame[name] = _convert(pd, frame[name], rows.types[name])
    except (OSError, ValueError, TypeError, ImportError, LookupError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DriverError(f"`{reader}` of `{FILE}` cannot be done: {first}") from error
    return frame


def _read_file(pd: Any, reader: str, settings: Any, file: Path, types: Any) -> Any:
    if reader == "read_parquet":
        return pd.read_parquet(file)
    if reader == "read_json_lines":
        dtype = dict.fromkeys(types, object) or True
        return pd.read_json(file, lines=True, encoding="utf-8-sig", dtype=dtype)
    as_text = dict.fromkeys(types, str) if settings.get("infer_column_types", True) else str
    empty = settings.get("empty_as_string", False)
    return pd.read_csv(file, encoding="utf-8-sig", keep_default_na=not empty, dtype=as_text)


def _convert(pd: Any, column: Any, word: str) -> Any:
    """A column as the type that the table gives it; one with gaps as the type that has them."""
    gaps = column.isna()
    if word == "datetime":
        return pd.to_datetime(column, utc=True).dt.tz_localize(None)
    if word == "string":
        return column.astype(str).mask(gaps, column)
    if word == "boolean":
        words = {"true": True, "false": False}
        truths = column.map(lambda value: words.get(str(value).lower(), value)).astype("boolean")
        return truths if gaps.any() else truths.astype(bool)
    numbers = pd.to_numeric(column)
    if word == "float":
        return numbers.astype("float64")
    return numbers.astype("Int64" if gaps.any() else "int64")
