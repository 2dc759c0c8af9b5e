"""`worldsize cache`: the steps that need not be run again, and their removal."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worldsize.cli import common, common as run_option

if TYPE_CHECKING:
    from worldsize.running.reuse.prune import Removal

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
EPILOG = """\b
Examples:
  worldsize cache                          what can be reused
  worldsize cache prune                    forget what nobody used for 30 days
  worldsize cache prune --older 7d --runs  and remove the runs that nothing needs any more
  worldsize cache prune --all              forget everything

An entry only points to the run that did the step: forgetting it frees nothing, removing runs does.
"""


@click.group(invoke_without_command=True, epilog=EPILOG)
@run_option.runs_dir
@click.pass_context
def command(context: click.Context, home: Path) -> None:
    """List the steps that can be reused, or forget them."""
    context.obj = home
    if context.invoked_subcommand is None:
        _list(home)


def _list(home: Path) -> None:
    from worldsize.running.reuse.store import Store  # noqa: PLC0415 - `--help` needs none of it

    entries = Store(home).entries()
    if not entries:
        click.echo(f"nothing to reuse in `{home}` yet")
        return
    now = time.time()
    rows = [
        (
            each.step,
            each.run,
            common.format_age(now - each.made),
            common.format_size(each.size),
            str(each.hits),
            common.format_age(now - each.used) if each.used is not None else "",
        )
        for each in entries
    ]
    headings = ("step", "run", "age", "size", "hits", "used")
    common.say("\n".join(common.format_table(headings, rows, right=frozenset({2, 3, 4, 5}))))
    saved = sum(each.hits * each.seconds for each in entries)
    size = common.format_size(sum(each.size for each in entries))
    click.echo(
        f"{_count(len(entries), 'step')}, {size} of outputs, {common.format_age(saved)} of running saved"
    )


def _age(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    matched = re.fullmatch(r"(\d{1,6})\s*([smhdw])", text.strip().lower())
    if matched is None:
        raise click.BadParameter(
            f"`{text}` is no age: write a number and one of s, m, h, d, w, such as `30d`"
        )
    return float(int(matched[1]) * UNITS[matched[2]])


@command.command()
@click.option(
    "--older", callback=_age, default="30d", show_default=True, metavar="AGE", help="Unused for so long."
)
@click.option("--all", "everything", is_flag=True, help="However new.")
@click.option("--runs", is_flag=True, help="Also the folders of runs that nothing refers to any more.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def prune(home: Path, older: float, *, everything: bool, runs: bool, yes: bool) -> None:
    """Forget steps that have not been used for a time. A run that goes on is never touched."""
    from worldsize.running.reuse.prune import plan_removal, remove_unused  # noqa: PLC0415 - as above
    from worldsize.running.reuse.store import Store  # noqa: PLC0415

    store = Store(home)
    removal = plan_removal(store, now=time.time(), older=0.0 if everything else older, runs=runs)
    if not removal.entries and not removal.runs:
        click.echo("nothing to remove")
        return
    if removal.runs and not yes and not _agreed(removal):
        raise SystemExit(1)
    gone = remove_unused(store, removal)
    said = f"forgot {_count(len(removal.entries), 'step')}"
    if runs:
        said += f", removed {_count(len(gone), 'run')}"
    common.say(said)


def _agreed(removal: Removal) -> bool:
    for path in removal.runs:
        common.say(f"  {path.name}")
    asked = f"remove {_count(len(removal.runs), 'run')}, {common.format_size(removal.size)}?"
    try:
        return click.confirm(asked)
    except click.Abort:  # nobody there to answer
        click.echo("\nnothing was removed: say --yes where nobody can answer", err=True)
        return False


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
