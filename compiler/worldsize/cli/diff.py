"""`worldsize diff`: prints what differs between two runs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from worldsize.base.wording import count_equal, plural, shorten
from worldsize.cli import common, run_folders
from worldsize.reporting.compare import Difference, compare_runs, find_shared_steps, show_value
from worldsize.running.record.history import list_runs, load_run

LONGEST_VALUE = 48
EPILOG = """\b
Examples:
  worldsize diff                          the newest run and the one before it
  worldsize diff 20260102-03              an earlier run and the newest
  worldsize diff 20260102 20260103 --json for a program

Only what differs is printed. Code, data and environments are compared by their content: the digests
tell that a step read other data, not which rows. The exit status is 0 whether or not something differs.
"""


@click.command(epilog=EPILOG)
@click.argument("first", metavar="[RUN]", required=False, shell_complete=run_folders.complete_runs)
@click.argument(
    "second", metavar="[RUN]", required=False, default="last", shell_complete=run_folders.complete_runs
)
@run_folders.runs_dir
@common.json_option
def command(first: str | None, second: str, home: Path, *, as_json: bool) -> None:
    """Compare two runs: parameters, code, data, environment and metrics."""
    if first is None:
        folders = list_runs(home)
        if len(folders) < 2:
            common.refuse(f"`{home}` has {plural(len(folders), 'run')}, and two are compared")
        first = folders[-2].name
    roots = run_folders.find_run(home, first), run_folders.find_run(home, second)
    if roots[0] == roots[1]:
        common.refuse(f"`{first}` and `{second}` are the same run, `{roots[0].name}`", "name two runs")
    runs = load_run(roots[0]), load_run(roots[1])
    differences = compare_runs(*runs)
    if as_json:
        ids = {"first": runs[0].id, "second": runs[1].id}
        click.echo(
            json.dumps(
                {**ids, "differences": [_document(difference) for difference in differences]}, indent=2
            )
        )
    elif not differences:
        common.say(f"{runs[0].id} and {runs[1].id} do not differ in anything that is recorded")
    else:
        common.say("\n".join(_render(differences, runs[0].id, runs[1].id)))
        if not any(find_shared_steps(*runs)):
            common.say("The runs have no step in common: their parameters and metrics cannot be compared.")


def _document(difference: Difference) -> dict[str, object]:
    names = ("section", "name", "first", "second")
    return common.describe(difference, *names, *(() if difference.change is None else ("change",)))


def _render(differences: list[Difference], first: str, second: str) -> list[str]:
    """One table for all sections, so that its columns are aligned."""
    rows: list[tuple[str, ...]] = []
    section = ""
    for difference in differences:
        if difference.section != section:
            section = difference.section
            rows.append((section, "", "", ""))
        change = "" if difference.change is None else f"{difference.change:+.4g}"
        values = _shorten_values(show_value(difference.first), show_value(difference.second))
        rows.append((f"  {shorten(difference.name, LONGEST_VALUE)}", *values, change))
    return list(common.format_table(("", first, second, "change"), rows, right=frozenset({3})))


def _shorten_values(first: str, second: str) -> tuple[str, str]:
    """Two values that differ, each short; a beginning that hides where they differ is left out."""
    short = shorten(first, LONGEST_VALUE), shorten(second, LONGEST_VALUE)
    if short[0] != short[1]:
        return short
    start = max(0, count_equal(first, second) - LONGEST_VALUE // 2)
    return shorten(f"…{first[start:]}", LONGEST_VALUE), shorten(f"…{second[start:]}", LONGEST_VALUE)
