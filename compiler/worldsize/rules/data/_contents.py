"""Local data that is empty or a pointer of Git LFS, and tables whose `MLTable` names what is not there."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from worldsize.azureml.references import describe_missing, exists, is_file, is_folder, local_path
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.documents.yaml import Mapping, Scalar, Sequence
from worldsize.documents.yaml.nodes import Node
from worldsize.rules.context import Context
from wsshards.regular_files import list_files
from wssources import mltable
from wssources.find_files import is_lfs_pointer
from wssources.formats import PICTURES, TABLES

_OPENED = 20  # files of a folder whose first bytes are read
_LISTED = 10_000  # files of a folder that a pattern is compared with
_NEED_CONTENT = {*TABLES, *PICTURES, ".json", ".tsv", ".zip", ".gz", ".npy", ".pt", ".pkl"}
_HEADERS = ("from_first_file", "all_files_same_headers", "all_files_different_headers")
_STEPS = (*mltable.READERS, *mltable.CHANGES, *mltable.ELSEWHERE)
_COLUMN_STEPS = ("keep_columns", "drop_columns")


def check_contents(context: Context, path: Path, text: str, span: Span) -> Iterator[Problem]:
    """Report data that is empty, or that Git LFS has not fetched."""
    if is_folder(path):
        try:
            names = list(islice(list_files(path, hidden=True), _OPENED))
        except OSError:  # more files than may be listed, or one that may not be read
            return
        if not names:
            message = f"`{text}` is an empty folder, which Azure ML does not upload"
            yield Problem("data-empty", span, message, "put the data into it, or correct the path")
        files = [path / name for name in names]
    else:
        files = [path] if is_file(path) else []
        if files and path.suffix.lower() in _NEED_CONTENT and path.stat().st_size == 0:
            message = f"`{text}` is an empty file"
            yield Problem("data-empty", span, message, "fill it, or correct the path")
    pointer = next((file for file in files if is_lfs_pointer(file)), None)
    if pointer is not None and context.inside(pointer):
        shown = text if pointer == path else f"{text.rstrip('/')}/{pointer.relative_to(path).as_posix()}"
        message = f"`{shown}` is a pointer of Git LFS, not the data"
        help_ = "fetch the data with `git lfs pull` before you submit the job"
        yield Problem("data-empty", span, message, help_)


def check_table(context: Context, path: Path, span: Span) -> Iterator[Problem]:
    """Report files and columns that the file `MLTable` in a folder names, and that are not there."""
    root = context.document(path / "MLTable").root
    unknown = list(_check_step_names(root, span))
    yield from unknown
    paths = root.get("paths") if isinstance(root, Mapping) else None
    if unknown or not isinstance(root, Mapping) or not isinstance(paths, Sequence):
        return
    files: list[Path | None] = []  # None for what lies elsewhere
    for item in paths.items:
        for key, value in item.items() if isinstance(item, Mapping) else ():
            text = value.text if isinstance(value, Scalar) and "{" not in value.text else "azureml:"
            local = local_path(text, path)
            matches: list[Path] | None = [local] if local is not None and exists(local) else []
            if local is None or not context.inside(local):
                matches = None
            elif key.text == "pattern":
                matches = _match(path, text)
            if matches is not None and not matches:
                missing = describe_missing("`MLTable`", text, path / text, span)
                named = (Related(value.span, "the file is named here"),)
                yield replace(missing.under("mltable-path-missing"), related=named)
                return
            files += [None] if matches is None else matches
    if files and None not in files and isinstance(files[0], Path) and is_file(files[0]):
        yield from _check_columns(root, files[0], span)


def _check_step_names(root: Node | None, span: Span) -> Iterator[Problem]:
    """Report a transformation whose name is misspelt."""
    steps = root.get("transformations") if isinstance(root, Mapping) else None
    for step in steps.items if isinstance(steps, Sequence) else ():
        keys = [key for key, _ in step.items()] if isinstance(step, Mapping) else [step]
        for key in keys:
            name = key.text if isinstance(key, Scalar) else ""
            help_ = did_you_mean(name, _STEPS) if name and name not in _STEPS else None
            if help_ is not None:
                message = f"`MLTable` has the unknown transformation `{name}`"
                named = (Related(key.span, "the transformation is named here"),)
                yield Problem("mltable-path-missing", span, message, help_, named)
                return


def _match(folder: Path, pattern: str) -> list[Path] | None:
    """The files below a folder that a pattern matches; None where that cannot be told."""
    parts = PurePosixPath(pattern).parts
    if any(sign in pattern for sign in "[]{}") or ".." in parts or not parts or pattern.startswith("/"):
        return None
    matches = []
    try:
        for name in list_files(folder, _LISTED, hidden=True):
            own = name.split("/")
            deep = "**" in parts  # folders of any depth: only the name of the file is compared
            same = deep or len(own) == len(parts)
            if same and all(map(fnmatchcase, own[-1:] if deep else own, parts[-1:] if deep else parts)):
                matches.append(folder / name)
    except OSError:
        return None
    return sorted(matches)


def _check_columns(root: Mapping, file: Path, span: Span) -> Iterator[Problem]:
    """Columns that the first transformations name, in a table of comma-separated text with a header."""
    from worldsize.data import tables  # few checks find an `MLTable` with its file

    steps, columns = root.get("transformations"), list[str]()
    for step in steps.items if isinstance(steps, Sequence) else ():
        for key, value in step.items() if isinstance(step, Mapping) else ():
            if key.text == "read_delimited":
                columns = tables.read_header(file) if _has_plain_header(value) else []
            elif key.text in _COLUMN_STEPS and columns:
                items = value.items if isinstance(value, Sequence) else [value]
                names = [item.value for item in items if isinstance(item, Scalar)]
                missing = next(
                    (name for name in names if isinstance(name, str) and name not in columns), None
                )
                if missing is not None:
                    message = (
                        f"`{key.text}` in `MLTable` names `{missing}`, which is no column of `{file.name}`"
                    )
                    help_ = did_you_mean(missing, columns) or f"its columns are {', '.join(columns[:12])}"
                    yield Problem("mltable-path-missing", span, message, help_)
                return
            else:  # what another transformation makes of the columns is not known
                return


def _has_plain_header(settings: Node) -> bool:
    """Whether `read_delimited` reads commas, and names in the first row."""
    if not isinstance(settings, Mapping):
        return False
    texts = {key.text: value.text if isinstance(value, Scalar) else "" for key, value in settings.items()}
    unusual = {"encoding", "support_multi_line", "include_path_column"} & texts.keys()
    return not unusual and texts.get("delimiter", ",") == "," and texts.get("header", _HEADERS[0]) in _HEADERS
