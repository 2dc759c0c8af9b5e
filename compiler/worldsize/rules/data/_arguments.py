"""The data that jobs and steps name: paths that do not exist, are of another type or have no version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from msgspec.structs import replace

from worldsize.azureml.model import Data, Field, Job, Literal
from worldsize.azureml.references import (
    describe_missing,
    exists,
    folder_of,
    is_file,
    is_folder,
    local_path,
    report_unknown_label,
)
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Problem, Related
from worldsize.base.span import NOWHERE, Span
from worldsize.base.suggest import did_you_mean
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, find_node, list_entries, list_items
from worldsize.rules.data import _shard_steps
from wsshards.regular_files import list_files
from wssources import mltable
from wssources.find_files import is_lfs_pointer
from wssources.formats import PICTURES, TABLES

_DATA_TYPES = frozenset({"uri_file", "uri_folder", "mltable", "mlflow_model", "custom_model", "triton_model"})
_NOT_FETCHED = "is a pointer of Git LFS, not the data"
_WITHOUT_VERSION = re.compile(r"azureml:[\w.-]+")


class DataArgument(NamedTuple):
    """Data that a job or step names by a path."""

    what: str  # how messages call it
    type: str  # in lower case
    text: str
    span: Span
    local: Path | None  # where it lies in the tree of the job; None for what lies elsewhere


def check_job(context: Tree, job: Job) -> Iterator[Problem]:
    yield from _check_paths(job)
    problems = [problem for data in _find_arguments(job) for problem in _check_argument(context, data)]
    # Which files of a folder are opened depends on the disk. The step that reads them all says it better.
    pointers = [problem for problem in problems if problem.message.endswith(_NOT_FETCHED)]
    sure = [problem for problem in problems if problem not in pointers]
    yield from sure
    read = list(_check_sources(context, job, {problem.span for problem in sure}))
    yield from read
    yield from (pointer for pointer in pointers if all(pointer.span != other.span for other in read))


def _check_sources(context: Tree, job: Job, reported: set[Span]) -> Iterator[Problem]:
    """Report local data that the steps which shard it would refuse."""
    for step in job.steps.values():
        if "data" in step.inputs or "source" in step.inputs:
            from worldsize.planning.memory.workload import is_sharding  # most steps read no tables

            if is_sharding(step.component) and _shard_steps.may_read_data(job, step):
                from worldsize.rules.data import _sharded  # only local data pays for its readers

                yield from _sharded.check_source(context, job, step, reported)


def _check_paths(job: Job) -> Iterator[Problem]:
    """Report data of a job or step that has only a type, as from a `command()` without a value."""
    mappings = [("", job.inputs if job.interface is None else {})]
    if job.type == "pipeline":
        mappings += [(f" of step `{name}`", step.inputs) for name, step in job.steps.items()]
    else:  # a job of one step, which has its inputs
        mappings = [("", step.inputs) for step in job.steps.values()]
    for where, fields in mappings:
        for name, field in fields.items():
            data = field.value
            if not isinstance(data, Data) or data.path is not None or _has_other_path(field.node):
                continue
            if (data.type or "").lower() in _DATA_TYPES:
                message = f"the input `{name}`{where} has `type: {data.type}` but no `path`"
                help_ = "add `path:` with a path, a URL or `azureml:NAME:VERSION`"
                help_ += ", or write `${{parent.jobs.STEP.outputs.NAME}}`" if where else ""
                yield Problem("data-without-path", field.key_span or NOWHERE, message, help_)


def _has_other_path(node: Node | None) -> bool:
    """Whether a key stands for the path, which is reported itself."""
    from worldsize.azureml.shape.keys import ALIASES, PREVIEW  # few inputs lack a path

    words = {word for words in (ALIASES, PREVIEW) for word, meant in words.items() if meant == "path"}
    return isinstance(node, Mapping) and not words.isdisjoint(node)


def check_data(context: Tree, asset: Data) -> Iterator[Problem]:
    what = "the model" if (asset.type or "").endswith("_model") else "the data asset"
    for data in _read_field(Field(asset), None, what):
        yield from _check_argument(context, data)


def _check_argument(context: Tree, data: DataArgument) -> Iterator[Problem]:
    if _WITHOUT_VERSION.fullmatch(data.text):
        asset = "model" if data.type.endswith("_model") else "data asset"
        message = f"`{data.text}` names a {asset} without its version"
        help_ = f"write `{data.text}@latest`, or `{data.text}:1` with the version you mean"
        yield Problem("data-without-version", data.span, message, help_)
    elif (finding := report_unknown_label(data.text, data.span)) is not None:
        yield finding.under("data-without-version")
    elif data.local is not None and context.inside(data.local):
        if is_file(data.local) or is_folder(data.local):
            wrong_type = _check_type(context, data, data.local)
            yield from wrong_type or _judge_contents(context, data.local, data.text, data.span)
            if data.type == "mltable" and not wrong_type:
                yield from _judge_table(context, data.local, data.span)
        else:
            yield describe_missing(data.what, data.text, data.local, data.span).under("data-missing")


def _check_type(context: Tree, data: DataArgument, path: Path) -> list[Problem]:
    is_folder = context.is_folder(path)
    slug = message = help_ = ""
    if data.type == "uri_folder" and not is_folder:
        message = f"`{data.text}` is a file, but {data.what} has `type: uri_folder`"
        help_ = "write `type: uri_file`, or name the folder that holds it"
        slug = "data-is-file"
    elif data.type == "uri_file" and is_folder:
        message = f"`{data.text}` is a folder, but {data.what} has `type: uri_file`"
        help_ = "write `type: uri_folder`, or name the file in the folder"
        slug = "data-is-folder"
    elif data.type == "mltable" and not (is_folder and context.exists(path / "MLTable")):
        message = f"`{data.text}` has no file `MLTable`, which the type `mltable` needs"
        help_ = "add `MLTable` to the folder, or write `type: uri_folder`"
        slug = "mltable-missing"
    return [Problem(slug, data.span, message, help_)] if slug else []


def _find_arguments(job: Job) -> Iterator[DataArgument]:
    """The data that a job and its steps name."""
    for field in job.inputs.values() if job.interface is None else ():
        yield from _read_field(field, None)
    for step in job.steps.values():
        for name, field in step.inputs.items():
            port = step.component.inputs.get(name) if step.component else None
            yield from _read_field(field, port.type if port and port.is_data else None)


def _read_field(
    field: Field[Any], declared_type: str | None, what: str = "the input"
) -> Iterator[DataArgument]:
    value = field.value
    if isinstance(value, Data):
        path = value.path.node if value.path is not None else None
        yield from _read_path(path, value.type or declared_type or "uri_folder", what)
    elif isinstance(value, Literal) and declared_type is not None:
        yield from _read_path(field.node, declared_type, what)


def _read_path(node: Node | None, data_type: str, what: str) -> Iterator[DataArgument]:
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value and "{" not in node.text:
        local = local_path(node.value, folder_of(node))
        yield DataArgument(what, data_type.lower(), node.value, node.span, local)


_OPENED = 20  # files of a folder whose first bytes are read
_LISTED = 10_000  # files of a folder that a pattern is compared with
_NEED_CONTENT = {*TABLES, *PICTURES, ".json", ".tsv", ".zip", ".gz", ".npy", ".pt", ".pkl"}
_HEADERS = ("from_first_file", "all_files_same_headers", "all_files_different_headers")
_STEPS = (*mltable.READERS, *mltable.CHANGES, *mltable.ELSEWHERE)
_COLUMN_STEPS = ("keep_columns", "drop_columns")


def _judge_contents(context: Tree, path: Path, text: str, span: Span) -> Iterator[Problem]:
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


def _judge_table(context: Tree, path: Path, span: Span) -> Iterator[Problem]:
    """Report files and columns that the file `MLTable` of a folder names but that do not exist."""
    root = context.document(path / "MLTable").root
    unknown = list(_check_step_names(root, span))
    yield from unknown
    files: list[Path | None] = []  # None for what lies elsewhere
    for item in list_items(find_node(root, "paths")) if not unknown else ():
        for key, value in list_entries(item):
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
    for step in list_items(find_node(root, "transformations")):
        keys: list[Node] = [key for key, _ in list_entries(step)] or [step]
        for key in keys:
            name = key.text if isinstance(key, Scalar) else ""
            help_ = did_you_mean(name, _STEPS) if name and name not in _STEPS else None
            if help_ is not None:
                message = f"`MLTable` has the unknown transformation `{name}`"
                named = (Related(key.span, "the transformation is named here"),)
                yield Problem("mltable-path-missing", span, message, help_, named)
                return


def _match(folder: Path, pattern: str) -> list[Path] | None:
    """The files below a folder that a pattern matches; None if unknown."""
    parts = PurePosixPath(pattern).parts
    if any(sign in pattern for sign in "[]{}") or ".." in parts or not parts or pattern.startswith("/"):
        return None
    matches = []
    try:
        for name in list_files(folder, _LISTED, hidden=True):
            name_parts = name.split("/")
            deep = "**" in parts  # folders of any depth: only the name of the file is compared
            same = deep or len(name_parts) == len(parts)
            if same and all(
                map(fnmatchcase, name_parts[-1:] if deep else name_parts, parts[-1:] if deep else parts)
            ):
                matches.append(folder / name)
    except OSError:
        return None
    return sorted(matches)


def _check_columns(root: Node | None, file: Path, span: Span) -> Iterator[Problem]:
    """Columns that the first transformations name, in a table of comma-separated text with a header."""
    from worldsize.data import tables  # few checks find an `MLTable` with its file

    columns = list[str]()
    for step in list_items(find_node(root, "transformations")):
        for key, value in list_entries(step):
            if key.text == "read_delimited":
                columns = tables.read_header(file) if _has_plain_header(value) else []
            elif key.text in _COLUMN_STEPS and columns:
                items = list_items(value) or [value]
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
