"""Reads the file `MLTable`: which files a table consists of, and what is made of their rows.

Microsoft Learn, "CLI (v2) MLTable YAML schema". What is not supported is refused by name, because a table
that is read otherwise than Azure ML reads it is worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from wsshards.errors import UserError, clip_text
from wsshards.regular_files import list_files, read_regular
from wssources.input_error import suggest
from wssources.request import first_line, unreadable

FILE = "MLTable"
PATH_COLUMN = "Path"  # the file of a row
MAX_BYTES = 1 << 20
READERS = ("read_delimited", "read_parquet", "read_json_lines")
EXTRACT = "extract_columns_from_partition_format"
CHANGES = ("keep_columns", "drop_columns", "convert_column_types", "take", "skip", "filter", EXTRACT)
ELSEWHERE = (  # that Azure ML knows, and which are not supported here
    "read_delta_lake",
    "take_random_sample",
    "replace",
)
PATH_KINDS = ("file", "folder", "pattern")
HEADERS = ("all_files_same_headers", "from_first_file", "all_files_different_headers", "no_header")
ENCODINGS = {
    "utf8": "utf-8-sig",
    "utf8bom": "utf-8-sig",
    "utf-8": "utf-8-sig",
    "utf16": "utf-16",
    "ascii": "ascii",
    "iso88591": "latin-1",
    "latin1": "latin-1",
    "windows1252": "cp1252",
}
SETTINGS = {  # of the readers, and whether another value than the default is read
    "read_delimited": (
        "delimiter",
        "encoding",
        "header",
        "empty_as_string",
        "infer_column_types",
        "include_path_column",
        "support_multi_line",
        "partition_size",
        "path_column",
    ),
    "read_parquet": ("include_path_column", "path_column"),
    "read_json_lines": ("encoding", "invalid_lines", "include_path_column", "path_column", "partition_size"),
}


class ElsewhereError(Exception):
    """A file of the table lies where it is not looked for."""


class TableFile(NamedTuple):
    """What a file `MLTable` says.

    Attributes:
        folder: that it is in.
        paths: kind, `file`, `folder` or `pattern`, and text of each.
        reader: how files become rows, with its settings; None if they are passed on as they are.
        changes: what is done to the rows, in order.
    """

    folder: Path
    paths: tuple[tuple[str, str], ...]
    reader: tuple[str, Mapping[str, Any]] | None
    changes: tuple[tuple[str, Any], ...]

    @property
    def has_path(self) -> bool:
        """Whether a column has the file of each row."""
        return self.reader is not None and bool(self.reader[1].get("include_path_column"))


def read_table_file(folder: Path) -> TableFile:
    """Read the file `MLTable` of a folder.

    Raises:
        UserError: it is not YAML, or says what is unknown or not supported.
    """
    try:
        text = read_regular(folder / FILE, MAX_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(FILE, error) from None
    content = _parse_yaml(text)
    entries = content.get("paths")
    if not isinstance(entries, list) or not entries:
        raise UserError(f"`{FILE}` has no `paths`", "list the files: `paths: [{file: ./a.csv}]`")
    steps = content.get("transformations") or []
    if not isinstance(steps, list):
        raise UserError(f"`transformations` of `{FILE}` is not a list", "begin each with `- `")
    named = [_read_step(step) for step in steps]
    readers = [step for step in named if step[0] in READERS]
    if len(readers) > 1 or (readers and named[0] is not readers[0]) or (named and not readers):
        raise UserError(
            f"`transformations` of `{FILE}` begins with `{named[0][0]}`"
            if not readers or named[0] is not readers[0]
            else f"`{FILE}` reads the files twice: `{readers[0][0]}` and `{readers[1][0]}`",
            f"begin with one of {', '.join(f'`{name}`' for name in READERS)}",
        )
    reader = None
    if readers:
        reader = readers[0][0], _check_settings(*readers[0])
    changes = tuple(named[1:])
    return TableFile(folder, tuple(map(_read_path, entries)), reader, changes)


def check_step_name(name: str) -> None:
    """Refuse the name of a transformation that is unknown or not supported; raises UserError."""
    if name in ELSEWHERE:
        raise UserError(
            f"`{name}` in `{FILE}` is not supported",
            f"supported are {', '.join(f'`{each}`' for each in (*READERS, *CHANGES))}",
        )
    if name not in READERS and name not in CHANGES:
        raise UserError(
            f"`{FILE}` has the unknown transformation `{clip_text(name)}`",
            suggest(name, (*READERS, *CHANGES)),
        )


def list_table_files(table: TableFile) -> list[str]:
    """Return the names of the table's files inside its folder, in the order of `paths`.

    Raises:
        UserError: a file does not exist, or leads out of the folder.
        ElsewhereError: one has an address.
    """
    names: list[str] = []
    for kind, text in table.paths:
        if "://" in text or text.startswith("azureml:"):
            raise ElsewhereError(text)
        names += _find(table.folder, kind, text)
    return list(dict.fromkeys(names))


def _find(folder: Path, kind: str, text: str) -> list[str]:
    plain = text.removeprefix("file:").replace("\\", "/").removeprefix("./").rstrip("/") or "."
    path = PurePosixPath(plain)
    if (
        path.is_absolute()
        or ".." in path.parts
        or not (folder / path).resolve().is_relative_to(folder.resolve())
    ):
        raise UserError(
            f"`{clip_text(text)}` in `{FILE}` leads out of its folder",
            "put the data beside it: Azure ML uploads that folder alone",
        )
    if kind == "pattern":
        found = sorted(name for name in list_files(folder) if matches_pattern(name, plain) and name != FILE)
    elif (folder / path).is_dir():
        found = sorted(str(path / name) if plain != "." else name for name in list_files(folder / path))
        found = [name for name in found if name != FILE]
    else:
        found = [str(path)] if (folder / path).is_file() else []
    if not found:
        verb = "matches no file" if kind == "pattern" else "does not exist or is empty"
        raise UserError(f"`{clip_text(text)}` in `{FILE}` {verb}", "correct the path, or add the file")
    return found


def matches_pattern(name: str, pattern: str) -> bool:
    """Return whether a path matches: `*` and `?` stay within a name, `**` is any number of folders."""
    wanted, places = PurePosixPath(pattern).parts, {0}
    for part in PurePosixPath(name).parts:
        reached = _pass_stars(places, wanted)
        stay = {place for place in reached if wanted[place : place + 1] == ("**",)}
        moved = {
            place + 1 for place in reached - stay if place < len(wanted) and fnmatchcase(part, wanted[place])
        }
        places = stay | moved
    return len(wanted) in _pass_stars(places, wanted)


def _pass_stars(places: set[int], wanted: Sequence[str]) -> set[int]:
    """Return the places, and the place after each `**` among them, which also matches no folder."""
    reached = set(places)
    for place, part in enumerate(wanted):
        if place in reached and part == "**":
            reached.add(place + 1)
    return reached


def _parse_yaml(text: str) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        raise UserError("the package `pyyaml` is not installed here", "install it") from None
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise UserError(f"`{FILE}` has an alias `*…`", "write the value out")
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        reason = getattr(error, "problem", None) or first_line(str(error))
        raise UserError(f"`{FILE}` is not YAML{where}: {reason}", "correct it") from None
    if not isinstance(content, dict):
        raise UserError(f"`{FILE}` is not a mapping", "write `paths:` and `transformations:`")
    return content


def _read_path(entry: Any) -> tuple[str, str]:
    if isinstance(entry, dict) and len(entry) == 1:
        kind, text = next(iter(entry.items()))
        if kind in PATH_KINDS and isinstance(text, str) and text:
            return kind, text
    raise UserError(
        f"`{clip_text(str(entry))}` under `paths` of `{FILE}` is not a file, a folder or a pattern",
        "write `file: ./a.csv`, `folder: ./data` or `pattern: ./*.csv`",
    )


def _read_step(step: Any) -> tuple[str, Any]:
    name, settings = step, None
    if isinstance(step, dict) and len(step) == 1:
        name, settings = next(iter(step.items()))
    if not isinstance(name, str):
        raise UserError(
            f"`{clip_text(str(step))}` under `transformations` of `{FILE}` is not one",
            "write `- read_delimited: {delimiter: ','}`",
        )
    check_step_name(name)
    return name, settings


def _check_settings(name: str, settings: Any) -> Mapping[str, Any]:
    if settings is not None and not isinstance(settings, dict):
        raise UserError(f"`{name}` of `{FILE}` is not a mapping", f"write `- {name}: {{delimiter: ','}}`")
    values = {str(key): value for key, value in (settings or {}).items()}
    unknown = next((key for key in values if key not in SETTINGS[name]), None)
    if unknown is not None:
        raise UserError(
            f"`{name}` of `{FILE}` has the unknown setting `{clip_text(unknown)}`",
            suggest(unknown, SETTINGS[name]),
        )
    choices: Sequence[tuple[str, Sequence[str]]] = (
        ("encoding", tuple(ENCODINGS)),
        ("header", HEADERS),
        ("invalid_lines", ("error", "drop")),
    )
    for key, known in choices:
        if key in values and str(values[key]).lower() not in known:
            raise UserError(
                f"`{key}` of `{name}` in `{FILE}` is `{clip_text(str(values[key]))}`",
                suggest(str(values[key]), known),
            )
    delimiter = values.get("delimiter", ",")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise UserError(
            f"`delimiter` of `{FILE}` is `{clip_text(str(delimiter))}`, not one character",
            "give one such as `,` or `;`",
        )
    return values
