"""`worldsize init`: starts a project."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from worldsize.base.wording import describe_os_error, quoted_list
from worldsize.cli import common

if TYPE_CHECKING:
    from worldsize.adopting.starting.project import Answers, Kind, NewProject
    from worldsize.adopting.starting.table import Table

EPILOG = """\b
Examples:
  worldsize init                                  asks what to start from; without a terminal, an example
  worldsize init --from prices.csv --label price  a table
  worldsize init flowers --from ~/pictures        a folder of pictures, one folder for each class
  worldsize init --from train.py                  a script, as `worldsize adopt` makes it distributed
  worldsize init --from pipeline.yml              settings and CI for an Azure ML pipeline, which stays

\b
It writes a spec, worldsize.yml (clusters), .amlignore and a GitHub workflow that checks each commit.
It replaces no file without --force.

\b
Exit status: 0 written, 1 nothing can be started from this, 2 usage, 3 an internal error of worldsize.
"""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".", metavar="[DIR]")
@click.option(
    "--from",
    "source",
    metavar="PATH",
    help="A table, a folder of pictures, a script or a pipeline; `-` for an example.",
)
@click.option("--label", metavar="COLUMN", help="The column of a table that is to be predicted.")
@click.option("--name", metavar="NAME", help="The name of the spec.")
@click.option("--instance-type", metavar="SIZE", help="The VM size that trains.")
@click.option("--instance-count", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: take the defaults.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
def command(
    folder: Path,
    *,
    source: str | None,
    label: str | None,
    name: str | None,
    instance_type: str | None,
    instance_count: int,
    yes: bool,
    force: bool,
) -> None:
    """Start a project from a table, a folder of pictures, a script or a pipeline."""
    for given, what in ((str(folder), "a folder"), (source or "-", "data, a script or YAML")):
        common.require_path(given, "worldsize init", what, script=given == source)
    from worldsize.adopting.spec import choose_size
    from worldsize.adopting.starting import project
    from worldsize.cli.adopt import find_size
    from worldsize.diagnostics.text import is_terminal

    size = choose_size(instance_count)
    asks = not yes and sys.stdin.isatty() and is_terminal(sys.stdout)
    if source is None and asks:
        source = click.prompt(
            "Start from (a table, a folder of pictures, train.py, pipeline.yml, - example)", "-"
        )
    path = None if source in (None, "-") else Path(str(source)).expanduser()
    try:
        kind = project.find_kind(path)
        usual = project.make_name(path.stem if path is not None else folder.absolute().name)
        answers = project.Answers(project.make_name(name or usual), size, instance_count, label)
        if kind != "pipeline":
            if asks and name is None:
                answers = replace(answers, name=project.make_name(click.prompt("Name", usual)))
            if asks and instance_type is None:
                instance_type = click.prompt("VM size", size)
            answers = replace(answers, instance_type=find_size(instance_type or size))
        _start(kind, folder, path, answers, asks=asks, force=force)
    except project.UnknownSourceError as error:
        common.refuse(str(error), error.help)
    except OSError as error:
        if error.filename is None:
            raise
        common.refuse(f"`{error.filename}`: {describe_os_error(error)}")


def _start(
    kind: Kind, folder: Path, source: Path | None, answers: Answers, *, asks: bool, force: bool
) -> None:
    from worldsize.adopting.starting import project

    if kind == "script":
        assert source is not None
        _start_script(folder, source, answers, force=force)
        return
    if kind == "pipeline":
        assert source is not None
        made = project.surround_pipeline(folder, source)
    else:
        table = None
        if kind == "table":
            assert source is not None
            table = _read_table(source)
            answers = _choose_label(table, answers, asks=asks)
        start = project.make_start(kind, folder, source, table, answers)
        made = project.make_files(folder, source, start, answers)
        _check(folder, made)
    _write(folder, {name: text.encode() for name, text in made.files.items()}, made.spec, force=force)
    _say_next(folder, made.spec)


def _read_table(path: Path) -> Table:
    from worldsize.adopting.starting import table
    from wsshards.errors import UserError

    try:
        return table.read_table(path)
    except UserError as error:
        common.refuse(str(error.message), error.help)


def _choose_label(table: Table, answers: Answers, *, asks: bool) -> Answers:
    """The label, as given, by its name, or asked for."""
    from worldsize.adopting.starting.table import find_labels
    from worldsize.base.suggest import did_you_mean

    given = answers.label
    if given is None:
        found = find_labels(table)
        if asks and found:
            given = str(click.prompt(f"Label (of {quoted_list(table.columns)})", found[0].name))
            answers = replace(answers, label=given, why="as chosen")
        elif len(found) == 1:
            return replace(answers, label=found[0].name, why=found[0].reason)
        else:
            names = quoted_list([each.name for each in found])
            common.refuse(
                f"several columns of `{table.path.name}` may be the label: {names}",
                "choose one with `--label COLUMN`",
            )
    if given not in table.columns:
        hint = did_you_mean(given, table.columns) or f"its columns are {quoted_list(table.columns)}"
        common.refuse(f"`{table.path.name}` has no column `{given}`", hint)
    return answers


def _check(folder: Path, made: NewProject) -> None:
    """Refuse to write a spec that has errors: they are those of the data."""
    from worldsize import yaml
    from worldsize.azureml.files import allow_anything
    from worldsize.checking import check_spec
    from worldsize.errors import SpecError

    assert made.spec is not None
    path = folder / made.spec
    try:
        check_spec(path, yaml.load(path, made.files[made.spec]), readable=allow_anything)
    except SpecError as error:
        common.say("error: the data has faults; nothing is written", err=True)
        common.refuse_spec(error)


def _start_script(folder: Path, script: Path, answers: Answers, *, force: bool) -> None:
    from worldsize.adopting.project import ProjectRequest, make_project
    from worldsize.adopting.spec import Target
    from worldsize.adopting.starting import project
    from worldsize.cli.adopt import adopt_or_refuse, find_data

    adoption = adopt_or_refuse(script)
    target = Target(answers.instance_type, answers.instance_count)
    request = ProjectRequest(adoption, script, target, find_data(adoption, script, None))
    made = make_project(request, folder, beside=False)
    around = project.surround_script(folder, answers)
    files = made.files | {name: text.encode() for name, text in around.items()}
    _write(folder, files, made.spec, force=force)
    _say_next(folder, made.spec)
    common.say(f"see the changes and prove them: worldsize adopt {shlex.quote(str(script))}")


def _write(folder: Path, files: dict[str, bytes], spec: str | None, *, force: bool) -> None:
    """Write the files. One that exists is kept, unless ``force``; a spec that exists is in the way."""
    from worldsize.adopting.project import find_existing, write_files
    from worldsize.fixing.apply import replace_content

    existing = find_existing(folder, files)
    if not force and (spec in existing or len(existing) == len(files)):
        common.refuse(
            f"`{folder / (spec or existing[0])}` exists already; nothing is written",
            "choose another `--name`, or replace what exists with `--force`"
            if spec
            else "`--force` replaces it",
        )
    write_files(folder, {name: content for name, content in files.items() if name not in existing})
    for name in existing if force else ():
        path = folder / name
        reason = replace_content(path, path.read_bytes(), files[name])
        if reason is not None:
            common.refuse(f"`{path}` cannot be written: {reason}")
    for name in files:
        if force or name not in existing:
            common.say(f"wrote {folder / name}")
    if existing and not force:
        kept = quoted_list([str(folder / name) for name in existing])
        common.say(f"kept {kept}: `--force` replaces what exists")


def _say_next(folder: Path, spec: str | None) -> None:
    common.say(f"\ncheck it:  worldsize check {shlex.quote(str(folder))}")
    if spec is not None:
        common.say(f"run it:    worldsize run {shlex.quote(str(folder / spec))}")
