"""Reads an MLTable: its files, and the table that its transformations make of them.

Supported are paths by file, folder and pattern, delimited text, Parquet and JSON lines, and the
transformations below. Anything else is refused by name, because a table that is read wrongly is worse than
none (MLTable's reference: Microsoft Learn, "CLI (v2) MLtable YAML schema").
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from .settings import DriverError

FILE = "MLTable"
PATH_COLUMN = "Path"
MAX_ENTRIES = 2_000_000  # circular links turn a few folders into millions of paths
ENCODINGS = {"utf8bom": "utf-8-sig", "iso88591": "latin-1", "windows1252": "cp1252"}
# The pandas type of each column type, and that of a column with gaps.
TYPES = {
    "string": ("str", "str"),
    "int": ("int64", "Int64"),
    "float": ("float64", "float64"),
    "boolean": ("bool", "boolean"),
}
_PLACEHOLDER = re.compile(r"\{([^{}:]+)(:[^{}]*)?\}")


@dataclass(frozen=True)
class Definition:
    """An MLTable file: the data files in order, and each transformation with its settings."""

    folder: Path
    files: tuple[str, ...]
    steps: tuple[tuple[str, Any], ...] = field(default=())

    @property
    def is_table(self) -> bool:
        """Whether the files are read into rows, not passed on as files."""
        return any(name.startswith("read_") for name, _ in self.steps)


def definition(path: Path) -> Definition:
    """Read the MLTable file of a folder.

    Raises:
        DriverError: There is none, or none of its files exists.
    """
    file = path if path.is_file() else path / FILE
    if not file.is_file():
        raise DriverError(f"the input is an mltable, but `{path.name}` has no file named `{FILE}`")
    try:
        import yaml  # only tables need it
    except ImportError as error:
        raise DriverError("reading an MLTable needs PyYAML: add `pyyaml` to the environment") from error

    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise DriverError(f"`{FILE}` is not YAML: {str(error).splitlines()[0]}") from error
    document = document if isinstance(document, dict) else {}
    files = tuple(each for entry in document.get("paths") or [] for each in _files(entry, file.parent))
    if not files:
        raise DriverError(f"the `paths` of `{FILE}` name no file that is there")
    return Definition(file.parent, files, tuple(map(_step, document.get("transformations") or [])))


def _files(entry: Any, folder: Path) -> list[str]:
    kind, text = next(iter(entry.items())) if isinstance(entry, dict) and entry else ("", "")
    if kind not in ("file", "folder", "pattern") or not isinstance(text, str):
        raise DriverError(f"`{entry}` under `paths` of `{FILE}` is not a file, a folder or a pattern")
    if "://" in text:
        raise DriverError(
            f"`{text}` in `{FILE}` is not on this machine: download it, and name it by a local path"
        )
    if kind == "pattern":
        relative = text.removeprefix("./")
        return sorted(str(path) for path in folder.glob(relative) if path.is_file() and path.name != FILE)
    path = folder / text
    if not path.exists():
        raise DriverError(f"`{text}` in `{FILE}` does not exist")
    return files_below(path)


def files_below(path: Path) -> list[str]:
    """The files below a folder, sorted by their path, or a file itself.

    Links are followed, except into a folder that contains them; pipes and broken links are omitted.

    Raises:
        DriverError: There are too many.
    """
    if path.is_file():
        return [str(path)]
    paths: list[str] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [(str(path), (os.path.realpath(path),))]
    looked_at = 0
    while waiting:
        folder, above = waiting.pop()
        with os.scandir(folder) as entries:
            listed = list(entries)
        looked_at += len(listed)
        if looked_at > MAX_ENTRIES:
            raise DriverError(
                f"`{path.name}` holds more than {MAX_ENTRIES:,} files and folders, links followed"
            )
        for entry in listed:
            if entry.is_file():
                paths.append(entry.path)
            elif entry.is_dir() and (real := os.path.realpath(entry.path)) not in above:
                waiting.append((entry.path, (*above, real)))
    return sorted(paths, key=lambda each: PurePosixPath(each).parts)


def _step(entry: Any) -> tuple[str, Any]:
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, dict) and len(entry) == 1:
        name, settings = next(iter(entry.items()))
        return str(name), {} if settings is None else settings
    raise DriverError(f"`{entry}` under `transformations` of `{FILE}` is not a transformation")


def table(definition: Definition) -> Any:
    """The pandas DataFrame that a definition makes.

    Raises:
        DriverError: pandas is missing, a transformation is unknown, or a file cannot be read.
    """
    try:
        import pandas as pd  # noqa: F401 - only tables need it
    except ImportError as error:
        raise DriverError("reading a table needs pandas: add `pandas` to the environment") from error

    frame: Any = None
    for name, settings in definition.steps:
        if name not in READERS and (name not in CHANGES or frame is None):
            known = ", ".join(f"`{each}`" for each in (*READERS, *CHANGES))
            raise DriverError(f"`{name}` in `{FILE}` is not supported here; supported are {known}")
        try:
            if name in READERS:
                frame = READERS[name](definition, settings if isinstance(settings, dict) else {})
            else:
                frame = CHANGES[name](frame, settings, definition)
        except (OSError, ValueError, TypeError, ImportError, LookupError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise DriverError(f"`{name}` of `{FILE}` cannot be done: {first}") from error
    return frame.reset_index(drop=True)


def _delimited(definition: Definition, settings: dict[str, Any]) -> Any:
    import pandas as pd

    header = settings.get("header", "all_files_same_headers")
    encoding = str(settings.get("encoding", "utf8"))
    common = {
        "sep": settings.get("delimiter", ","),
        "encoding": ENCODINGS.get(encoding, encoding),
        "keep_default_na": not settings.get("empty_as_string", False),
        "dtype": None if settings.get("infer_column_types", True) else str,
    }
    frames: list[Any] = []
    for file in definition.files:
        if header == "no_header":
            frame = pd.read_csv(file, header=None, **common)
            frame.columns = [f"Column{number}" for number in range(1, len(frame.columns) + 1)]
        elif header == "from_first_file" and frames:
            names = frames[0].columns.drop(PATH_COLUMN, errors="ignore")
            frame = pd.read_csv(file, header=None, names=names, **common)
        else:
            frame = pd.read_csv(file, **common)
        frames.append(_with_path(frame, file, definition, settings))
    return pd.concat(frames, ignore_index=True)


def _parquet(definition: Definition, settings: dict[str, Any]) -> Any:
    import pandas as pd

    frames = [_with_path(pd.read_parquet(file), file, definition, settings) for file in definition.files]
    return pd.concat(frames, ignore_index=True)


def _json_lines(definition: Definition, settings: dict[str, Any]) -> Any:
    import pandas as pd

    encoding = str(settings.get("encoding", "utf8"))
    frames = []
    for file in definition.files:
        frame = pd.read_json(file, lines=True, encoding=ENCODINGS.get(encoding, encoding))
        frames.append(_with_path(frame, file, definition, settings))
    return pd.concat(frames, ignore_index=True)


def _with_path(frame: Any, file: str, definition: Definition, settings: dict[str, Any]) -> Any:
    """Add the file of each row, if it is requested or needed for a partition format."""
    needed = any(name == "extract_columns_from_partition_format" for name, _ in definition.steps)
    if needed or settings.get("include_path_column"):
        frame[PATH_COLUMN] = "/" + Path(os.path.relpath(file, definition.folder)).as_posix()
    return frame


def _extract(frame: Any, settings: dict[str, Any], definition: Definition) -> Any:
    """Columns from the end of each file's path, such as ``{Store}/{Brand}/{file_name}.{extension}``."""
    text = str(settings.get("partition_format", ""))
    placeholders = list(_PLACEHOLDER.finditer(text))
    if any(match.group(2) for match in placeholders):
        raise DriverError(f"the dates in `partition_format: {text}` are not read here; use plain names")
    # Splitting gives text, name, date format, text, …
    pieces = _PLACEHOLDER.split(text.lstrip("/"))
    parts = ["([^/]+?)" if at % 3 else re.escape(piece) for at, piece in enumerate(pieces) if at % 3 != 2]
    expression = re.compile(rf"(?:^|/){''.join(parts)}$")
    paths = frame[PATH_COLUMN]
    for path in paths.unique():
        match = expression.search(path)
        if match is None:
            raise DriverError(f"`{path}` does not fit `partition_format: {text}`")
        for placeholder, value in zip(placeholders, match.groups(), strict=True):
            frame.loc[paths == path, placeholder.group(1)] = value
    is_requested = any(
        step_settings.get("include_path_column")
        for name, step_settings in definition.steps
        if name in READERS
    )
    return frame if is_requested else frame.drop(columns=PATH_COLUMN)


def _columns(settings: Any) -> list[str]:
    named = settings.get("columns", settings) if isinstance(settings, dict) else settings
    return [str(name) for name in (named if isinstance(named, list) else [named])]


def _keep(frame: Any, settings: Any, _: Definition) -> Any:
    wanted = _columns(settings)
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise DriverError(f"`keep_columns` of `{FILE}` names `{missing[0]}`, which the table does not have")
    return frame[wanted]


def _drop(frame: Any, settings: Any, _: Definition) -> Any:
    return frame.drop(columns=_columns(settings), errors="ignore")


def _take(frame: Any, settings: Any, _: Definition) -> Any:
    return frame.head(_number(settings))


def _skip(frame: Any, settings: Any, _: Definition) -> Any:
    return frame.iloc[_number(settings) :]


def _number(settings: Any) -> int:
    value = settings.get("count") if isinstance(settings, dict) else settings
    if not isinstance(value, int):
        raise DriverError(f"`{settings}` in `{FILE}` is not a number of rows")
    return value


def _convert(frame: Any, settings: Any, _: Definition) -> Any:
    for entry in settings if isinstance(settings, list) else [settings]:
        for name in _columns(entry):
            if name not in frame.columns:
                raise DriverError(f"`convert_column_types` names `{name}`, which the table does not have")
            frame[name] = _converted(frame[name], entry.get("column_type"))
    return frame


def _converted(column: Any, kind: Any) -> Any:
    import pandas as pd

    word = next(iter(kind), None) if isinstance(kind, dict) else kind
    if word == "datetime":
        settings = kind[word] if isinstance(kind, dict) and isinstance(kind[word], dict) else {}
        formats = settings.get("formats") or [None]
        return pd.to_datetime(column, format=formats[0])
    if word not in TYPES:
        raise DriverError(f"`column_type: {kind}` is not read here; types are {', '.join(TYPES)}, datetime")
    plain, with_gaps = TYPES[word]
    return column.astype(with_gaps if column.isna().any() else plain)


READERS: dict[str, Callable[[Definition, dict[str, Any]], Any]] = {
    "read_delimited": _delimited,
    "read_parquet": _parquet,
    "read_json_lines": _json_lines,
}
CHANGES: dict[str, Callable[[Any, Any, Definition], Any]] = {
    "extract_columns_from_partition_format": _extract,
    "keep_columns": _keep,
    "drop_columns": _drop,
    "convert_column_types": _convert,
    "take": _take,
    "skip": _skip,
}
