"""`worldsize init`: starts a project."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from worldsize.adopting.project.spec import UnknownSizeError
from worldsize.adopting.starting.pipeline import StartError
from worldsize.adopting.starting.project import Question, Started, init
from worldsize.base.wording import quoted_list
from worldsize.cli import common
from worldsize.cli.adopt import exit_on_refusal
from worldsize.documents.diagnostics.text import is_terminal

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
def command(folder: Path, *, source: str | None, yes: bool, **options: Any) -> None:
    """Start a project from a table, a folder of pictures, a script or a pipeline."""
    for place, what in ((str(folder), "a folder"), (source or "-", "data, a script or YAML")):
        common.require_path(place, "worldsize init", what, script=place == source)

    asks = not yes and sys.stdin.isatty() and is_terminal(sys.stdout)
    with exit_on_refusal():
        try:
            started = init(folder, source=source, ask=_ask if asks else None, **options)
        except click.Abort:  # Ctrl-C or the end of the input, at a question
            common.say("\nnothing is written", err=True)
            raise SystemExit(130) from None
    _show(started)


def _ask(question: Question) -> Any:
    """Ask in the terminal, until the answer can be used."""

    def read(text: str) -> Any:
        try:
            return question.read(text)
        except (StartError, UnknownSizeError) as error:
            help_ = getattr(error, "help", None)
            raise click.UsageError(f"{error}: {help_}" if help_ else str(error)) from None

    usual = question.usual
    return click.prompt(question.text, usual, show_default=bool(usual), value_proc=read)


def _show(started: Started) -> None:
    for path in started.written:
        common.say(f"wrote {path}")
    if started.kept:
        common.say(f"kept {quoted_list(list(map(str, started.kept)))}: `--force` replaces what exists")
    for number, note in enumerate(started.notes):
        common.say_sentences(note if number else f"\n{note}")
    common.say(f"\ncheck it:  worldsize check {shlex.quote(str(started.folder))}")
    if started.spec is not None:
        common.say(f"run it:    worldsize run {shlex.quote(str(started.folder / started.spec))}")
    if started.script is not None:
        changes = f"worldsize adopt {shlex.quote(str(started.script))}"
        common.say(f"see the changes and prove them: {changes}")
