"""The files of a new project, by what it starts from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from worldsize.adopting.project.files import CODE, relative_path
from worldsize.adopting.project.spec import most_instances
from worldsize.adopting.starting import files
from worldsize.adopting.starting.pipeline import UnknownSourceError, check_pipeline, find_clusters, find_code
from worldsize.adopting.starting.spec import (
    CPU_CLUSTER,
    CPU_SIZE,
    GPU_CLUSTER,
    Start,
    describe_start,
    start_example,
    start_pictures,
    start_table,
)
from worldsize.adopting.starting.table import find_settings
from worldsize.azureml import yaml_dump
from worldsize.data.tables import Table
from wsshards.regular_files import list_files
from wssources.formats import PICTURES, TABLES

Kind = Literal["example", "table", "pictures", "script", "pipeline"]
_MANY = 100_000
_PANDAS = {
    ".tsv": "read_csv({!r}, sep='\\t')",
    ".tab": "read_csv({!r}, sep='\\t')",
    ".xlsx": "read_excel({!r})",
    ".xls": "read_excel({!r})",
    ".feather": "read_feather({!r})",
    ".dta": "read_stata({!r})",
}


class NewProject(Struct, frozen=True):
    """The files of a project by their paths in its folder; ``spec`` is the one to run, if there is one."""

    files: dict[str, str]
    spec: str | None


class Answers(Struct, frozen=True):
    """What was asked for, on the command line or in a terminal."""

    name: str
    instance_type: str
    instance_count: int = 1
    label: str | None = None
    why: str = "as given"


def find_kind(source: Path | None) -> Kind:
    """What a path is, by its name and content; None is the example.

    Raises:
        UnknownSourceError: No project starts from it.
    """
    if source is None:
        return "example"
    help_ = "start from a table (CSV, JSON Lines, Parquet), a folder of pictures, a script, or a pipeline"
    if not source.exists():
        raise UnknownSourceError(f"`{source}` does not exist", help_)
    suffix = source.suffix.lower()
    if source.is_dir():
        if _list_pictures(source):
            return "pictures"
        tables = sorted(each for each in source.iterdir() if each.suffix.lower() in TABLES)
        if tables:
            help_ = f"name one of its tables: `--from {shlex.quote(str(tables[0]))}`"
        raise UnknownSourceError(f"`{source}` contains no pictures", help_)
    if suffix == ".py":
        return "script"
    if suffix in (".yml", ".yaml"):
        check_pipeline(source)
        return "pipeline"
    if suffix in TABLES and TABLES[suffix] != "npz":
        return "table"
    raise UnknownSourceError(
        f"`{source}` is nothing that a project starts from", _find_way(source, suffix) or help_
    )


def _find_way(source: Path, suffix: str) -> str | None:
    """How to make a CSV of a table in another format."""
    if suffix not in _PANDAS:
        return None
    read = _PANDAS[suffix].format(source.name)
    return f"write a CSV: `pandas.{read}.to_csv({source.with_suffix('.csv').name!r}, index=False)`"


def make_name(text: str) -> str:
    """A name for a spec: lower case, with underscores."""
    name = re.sub(r"\W+", "_", text.lower(), flags=re.ASCII).strip("_")
    return name if name[:1].isalpha() else f"project_{name}".rstrip("_")


def make_start(kind: Kind, folder: Path, source: Path | None, table: Table | None, answers: Answers) -> Start:
    """What the project trains."""
    if source is None:
        return start_example(answers.name)
    path = relative_path(source.absolute(), folder.absolute())
    if kind == "pictures":
        return start_pictures(answers.name, path, len(_list_pictures(source)))
    assert table is not None
    assert answers.label is not None
    settings, rows = find_settings(table, answers.label), len(table.head.rows)
    start = start_table(answers.name, path, answers.label, answers.why, settings.inputs, rows=rows)
    return replace(start, said=settings.said)


def _list_pictures(folder: Path) -> list[str]:
    return [each for each in list_files(folder, _MANY) if Path(each).suffix.lower() in PICTURES]


def make_files(folder: Path, source: Path | None, start: Start, answers: Answers) -> NewProject:
    """The files of a project that starts from data."""
    spec = f"{answers.name}.yml"
    most = most_instances(answers.instance_count)
    document = describe_start(start, answers.instance_type, answers.instance_count)
    clusters = {GPU_CLUSTER: (answers.instance_type, most), CPU_CLUSTER: (CPU_SIZE, 1)}
    path = "" if source is None else relative_path(source.absolute(), folder.absolute())
    ignored = files.write_ignored(*([path.removeprefix("./")] if path.startswith("./") else []))
    text = yaml_dump.dump(document, header=files.SPEC_SCHEMA)
    return NewProject({spec: text, **_surround(clusters), files.IGNORED: ignored}, spec)


def surround_script(answers: Answers) -> dict[str, str]:
    """The files around an adopted script."""
    clusters = {GPU_CLUSTER: (answers.instance_type, most_instances(answers.instance_count))}
    return {**_surround(clusters), f"{CODE}/{files.IGNORED}": files.write_ignored()}


def surround_pipeline(folder: Path, pipeline: Path, sizes: dict[str, str | None]) -> NewProject:
    """The files around a pipeline that exists, which stays as it is.

    ``sizes`` are the VM sizes of its clusters, as far as the user knows them.
    """
    clusters = {name: (sizes.get(name), None) for name in find_clusters(pipeline, folder)}
    ignored = {
        (Path(each) / files.IGNORED).as_posix(): files.write_ignored() for each in find_code(pipeline, folder)
    }
    return NewProject({**_surround(clusters), **ignored}, None)


def _surround(clusters: Mapping[str, tuple[str | None, int | None]]) -> dict[str, str]:
    return {
        files.SETTINGS: files.write_settings(clusters),
        files.WORKFLOW: files.write_workflow(version("worldsize")),
    }
