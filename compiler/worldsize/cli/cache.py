"""`worldsize cache`: lists the steps that can be reused, and removes them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from worldsize.base.wording import format_age, format_size, plural
from worldsize.cli import common, run_folders
from worldsize.running.reuse.store import Removal, Store, plan_removal, remove_unused

EPILOG = """\b
Examples:
  worldsize cache                          list the steps that can be reused
  worldsize cache prune                    forget steps that were not used for 30 days
  worldsize cache prune --older 7d --runs  also remove the runs that no step refers to
  worldsize cache prune --all              forget everything

An entry only points to the run that did the step: forgetting it frees no space, removing runs does.
"""


@click.group(invoke_without_command=True, epilog=EPILOG)
@run_folders.runs_dir
@common.json_option
@click.pass_context
def command(context: click.Context, home: Path, *, as_json: bool) -> None:
    """List the steps that can be reused, or forget them."""
    context.obj = home
    if context.invoked_subcommand is None:
        _list(home, as_json=as_json)
    elif as_json:
        raise click.UsageError("`--json` lists the steps, and has no effect on other commands")


def _list(home: Path, *, as_json: bool) -> None:
    entries = Store(home).entries()
    if as_json:
        names = ("step", "run", "made", "size", "hits", "seconds", "used")
        click.echo(json.dumps([common.describe(entry, *names) for entry in entries], indent=2))
        return
    if not entries:
        click.echo(f"nothing to reuse in `{home}` yet")
        return
    now = time.time()
    rows = [
        (
            entry.step,
            entry.run,
            format_age(now - entry.made),
            format_size(entry.size),
            str(entry.hits),
            format_age(now - entry.used) if entry.used is not None else "",
        )
        for entry in entries
    ]
    headings = ("step", "run", "age", "size", "hits", "used")
    common.say_table(headings, rows, right={2, 3, 4, 5})
    saved = sum(entry.hits * entry.seconds for entry in entries)
    size = format_size(sum(entry.size for entry in entries))
    click.echo(f"{plural(len(entries), 'step')}, {size} of outputs, {format_age(saved)} of running saved")


def _age(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    seconds = common.parse_age(text)
    if seconds is None:
        raise click.BadParameter(
            f"`{text}` is not an age: write a number and one of s, m, h, d, w, such as `30d`"
        )
    return seconds


@command.command()
@click.option(
    "--older",
    callback=_age,
    default="30d",
    show_default=True,
    metavar="AGE",
    help="Only steps unused for this time.",
)
@click.option("--all", "everything", is_flag=True, help="All steps, however recently used.")
@click.option("--runs", is_flag=True, help="Also remove the folders of runs that no step refers to.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def prune(home: Path, older: float, *, everything: bool, runs: bool, yes: bool) -> None:
    """Forget steps that have not been used for some time. Active runs are not touched."""
    store = Store(home)
    removal = plan_removal(store, now=time.time(), older=0.0 if everything else older, runs=runs)
    if not removal.entries and not removal.runs:
        click.echo("nothing to remove")
        return
    if removal.runs and not yes and not _confirm(removal):
        raise SystemExit(1)
    removed_runs = remove_unused(store, removal)
    message = f"forgot {plural(len(removal.entries), 'step')}"
    if runs:
        message += f", removed {plural(len(removed_runs), 'run')}"
    common.say(message)


def _confirm(removal: Removal) -> bool:
    for path in removal.runs:
        common.say(f"  {path.name}")
    question = f"remove {plural(len(removal.runs), 'run')}, {format_size(removal.size)}?"
    try:
        return click.confirm(question)
    except click.Abort:  # no terminal to answer
        click.echo("\nnothing was removed: give --yes if no one can answer", err=True)
        return False
