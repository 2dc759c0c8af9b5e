"""`worldsize init`: starts a project."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from worldsize.adopting.project.files import ProjectRequest, find_existing, make_project, write_files
from worldsize.adopting.project.spec import Target, choose_size
from worldsize.adopting.starting import project
from worldsize.adopting.starting.pipeline import UnknownSourceError, check_inside, find_clusters
from worldsize.adopting.starting.table import find_labels
from worldsize.base import untrusted
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import describe_os_error, quoted_list
from worldsize.checking import check_spec
from worldsize.cli import common
from worldsize.cli.adopt import adopt_or_refuse, find_size
from worldsize.cli.adopt_data import find_data
from worldsize.documents import yaml
from worldsize.documents.diagnostics.text import is_terminal
from worldsize.documents.errors import SpecError

if TYPE_CHECKING:
    from worldsize.adopting.starting.project import Answers, Kind, NewProject
    from worldsize.adopting.starting.spec import Start
    from worldsize.data.tables import Table

EPILOG = """\b
Examples:
  worldsize init                                  asks what to start from; without a terminal, an example
  worldsize init --from prices.csv --label price  a table
  worldsize init flowers --from ~/pictures        a folder of pictures, one folder for each class
  worldsize init --from train.py                  a script, as `worldsize adopt` makes it distributed
  worldsize init --from pipeline.yml              settings and CI for an Azure ML pipeline, which stays

\b
It writes a spec, worldsize.yml (clusters), .amlignore and a GitHub workflow that checks each commit.
It replaces no file without --force. A pipeline's clusters have the VM size that you say; the file
marks the places of those that you leave out.

\b
Exit status: 0 written, 1 nothing can be started from this, 2 usage, 3 an internal error of worldsize,
130 Ctrl-C or the end of the input at a question: nothing is written.
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
@click.option(
    "--instance-type", metavar="SIZE", help="The VM size that trains; of a pipeline, that of its clusters."
)
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
    for place, what in ((str(folder), "a folder"), (source or "-", "data, a script or YAML")):
        common.require_path(place, "worldsize init", what, script=place == source)

    asks = not yes and sys.stdin.isatty() and is_terminal(sys.stdout)
    given = Given(source, label, name, instance_type, instance_count)
    try:
        _start(folder, given, asks=asks, force=force)
    except UnknownSourceError as error:
        common.refuse(str(error), error.help)
    except OSError as error:
        if error.filename is None:
            raise
        common.refuse(f"`{error.filename}`: {describe_os_error(error)}")
    except click.Abort:  # Ctrl-C or the end of the input, at a question
        common.say("\nnothing is written", err=True)
        raise SystemExit(130) from None


class Given(Struct, frozen=True):
    """What the command line says."""

    source: str | None
    label: str | None
    name: str | None
    instance_type: str | None
    instance_count: int


def _start(folder: Path, given: Given, *, asks: bool, force: bool) -> None:
    path = _choose_source(given.source, asks=asks)
    kind = project.find_kind(path)
    if kind == "pipeline":
        assert path is not None
        check_inside(path, folder)
        made = project.surround_pipeline(folder, path, _choose_sizes(folder, path, given, asks=asks))
        _write(folder, {name: text.encode() for name, text in made.files.items()}, None, force=force)
        _say_next(folder, None)
        return
    answers = _ask(folder, path, given, asks=asks)
    if kind == "script":
        assert path is not None
        _start_script(folder, path, answers, force=force)
        return
    table = None
    if kind == "table":
        assert path is not None
        table = _read_table(path)
        answers = _choose_label(table, answers, asks=asks)
    start = _make_start(kind, folder, path, table, answers)
    made = project.make_files(folder, path, start, answers)
    _check(folder, made)
    _write(folder, {name: text.encode() for name, text in made.files.items()}, made.spec, force=force)
    said = list(start.said)
    if table is not None and answers.why not in ("as given", "as chosen"):
        said.insert(0, f"the label is `{answers.label}`, {answers.why}: `--label` chooses another column")
    for number, sentence in enumerate(said):
        common.say_sentences(sentence if number else f"\n{sentence}")
    _say_next(folder, made.spec)


def _choose_source(source: str | None, *, asks: bool) -> Path | None:
    """What the project starts from, asked for until it is something; None is an example."""

    def read(text: str) -> Path | None:
        path = None if text == "-" else Path(_unquote(text)).expanduser()
        try:
            project.find_kind(path)
        except UnknownSourceError as error:
            raise click.UsageError(f"{error}: {error.help}") from None
        return path

    if source is None and asks:
        question = "Start from (a table, a folder of pictures, train.py, pipeline.yml, - example)"
        found: Path | None = click.prompt(question, "-", value_proc=read)
        return found
    return None if source in (None, "-") else Path(str(source)).expanduser()


def _unquote(text: str) -> str:
    """A path as terminals paste it, between quotation marks."""
    text = text.strip()
    quoted = len(text) > 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _ask(folder: Path, path: Path | None, given: Given, *, asks: bool) -> Answers:
    """The name and the VM size, as given or asked for."""
    name, size = given.name, given.instance_type
    usual = project.make_name(path.stem if path is not None else folder.absolute().name)
    if name is None:
        name = click.prompt("Name", usual) if asks else usual
    if size is None:
        size = choose_size(given.instance_count)
        size = click.prompt("VM size", size, value_proc=_read_size) if asks else size
    return project.Answers(project.make_name(name), find_size(size), given.instance_count, given.label)


def _read_size(text: str) -> str:
    """A VM size that was typed in."""
    try:
        return find_size(text)
    except click.BadParameter as error:
        raise click.UsageError(error.message) from None


def _choose_sizes(folder: Path, pipeline: Path, given: Given, *, asks: bool) -> dict[str, str | None]:
    """The VM sizes of a pipeline's clusters: only the user knows them."""
    found = find_clusters(pipeline, folder)
    if given.instance_type is not None:
        return dict.fromkeys(found, find_size(given.instance_type))
    if not asks:
        return {}
    return {
        name: click.prompt(
            f"VM size of the cluster `{name}` (empty if you do not know it)",
            "",
            show_default=False,
            value_proc=lambda text: _read_size(text) if text.strip() else None,
        )
        for name in found
    }


def _read_table(path: Path) -> Table:
    from worldsize.data import tables
    from wsshards.errors import UserError

    try:
        return tables.read_table(path)
    except UserError as error:
        common.refuse(str(error.message), error.help)


def _choose_label(table: Table, answers: Answers, *, asks: bool) -> Answers:
    """The label, as given, by its name, or asked for."""

    def read(text: str) -> str:
        if text not in table.columns:
            raise click.UsageError(f"`{table.path.name}` has no column `{text}`")
        return text

    given = answers.label
    if given is None:
        found = find_labels(table)
        if asks and found:
            question = f"Label (of {quoted_list(table.columns)})"
            given = click.prompt(question, found[0].name, value_proc=read)
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


def _make_start(kind: Kind, folder: Path, path: Path | None, table: Table | None, answers: Answers) -> Start:
    from wsshards.errors import UserError

    try:
        return project.make_start(kind, folder, path, table, answers)
    except UserError as error:
        common.refuse(str(error.message), error.help)


def _check(folder: Path, made: NewProject) -> None:
    """Refuse to write a spec that has errors: they are those of the data, and shown without its places."""
    assert made.spec is not None
    path = folder / made.spec
    try:
        check_spec(path, yaml.load(path, made.files[made.spec]))
    except SpecError as error:
        if any(each.code == "WS000" for each in error.diagnostics):
            common.refuse_spec(error)
        first = next(each for each in error.diagnostics if each.severity == "error")
        common.refuse(f"the data has faults; nothing is written: {first.message} [{first.code}]", first.help)


def _start_script(folder: Path, script: Path, answers: Answers, *, force: bool) -> None:
    adoption = adopt_or_refuse(script)
    target = Target(answers.instance_type, answers.instance_count)
    data = find_data(adoption.profile, script)
    request = ProjectRequest(adoption, script, target, data, name=answers.name)
    made = make_project(request, folder, beside=False)
    around = project.surround_script(answers)
    files = made.files | {name: text.encode() for name, text in around.items()}
    _write(folder, files, made.spec, force=force)
    _say_next(folder, made.spec)
    common.say(f"see the changes and prove them: worldsize adopt {shlex.quote(str(script))}")


def _write(folder: Path, files: dict[str, bytes], spec: str | None, *, force: bool) -> None:
    """Write the files. One that exists is kept, unless ``force``; a spec that exists is in the way."""
    existing = find_existing(folder, files)
    if not force and (spec in existing or len(existing) == len(files)):
        common.refuse(
            f"`{folder / (spec or existing[0])}` exists already; nothing is written",
            "choose another `--name`, or replace what exists with `--force`"
            if spec
            else "`--force` replaces it",
        )
    new = {name: content for name, content in files.items() if name not in existing}
    old = existing if force else []
    try:
        replaced = {folder / name: (untrusted.read_bytes(folder / name), files[name]) for name in old}
        write_files(folder, new, replaced)
    except OSError as error:
        common.refuse(f"`{error.filename}` cannot be written: {describe_os_error(error)}")
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
