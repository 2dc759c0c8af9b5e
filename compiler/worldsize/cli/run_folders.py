"""The runs that a command line names: where they are kept, their folders, and what the shell completes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from worldsize.cli import common
from worldsize.running.record import history

MAX_RUNS = 50  # that are completed


def make_home_option(name: str, help_: str) -> Callable[[Any], Any]:
    """The option of a home, which a command gets as ``home``."""
    place = click.Path(file_okay=False, path_type=Path)
    return click.option(name, "home", type=place, default=".worldsize", show_default=True, help=help_)


runs_dir = make_home_option("--runs-dir", "Where runs are kept.")


def find_run(home: Path, text: str) -> Path:
    """The folder of the run that the user names, by its id or its path; exits if there is no such run."""
    try:
        folder = Path(text).resolve() if "/" in text and Path(text).is_dir() else history.find_run(home, text)
    except LookupError as error:
        has_runs = any(history.list_runs(home))
        here = "`worldsize run` makes one, and `--runs-dir` names the folder of others"
        common.refuse(str(error.args[0]), "`worldsize runs` lists them" if has_runs else here)
    if not any((folder / name).exists() for name in (history.RECORD, "events.jsonl", "steps")):
        common.refuse(f"`{folder}` is not the folder of a run", "`worldsize runs` lists them")
    return folder


def complete_runs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of runs of the home, the newest first, with their states; and ``last``."""
    folders = reversed(history.list_runs(_home(ctx)))
    roots = [root for root in folders if root.name.startswith(incomplete)][:MAX_RUNS]
    newest = (
        [CompletionItem("last", help="the newest run")] if roots and "last".startswith(incomplete) else []
    )
    return newest + [
        CompletionItem(run.id, help=f"{run.state} {Path(run.label).name}".strip())
        for run in history.load_runs(roots)
    ]


def complete_steps(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The steps of the run that the command line names, else of the newest."""
    try:
        run = history.load_run(history.find_run(_home(ctx), str(ctx.params.get("run") or "last")))
    except LookupError:
        return []
    return [
        CompletionItem(name, help=step.state)
        for name, step in run.steps.items()
        if name.startswith(incomplete)
    ]


def complete_runs_and_steps(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """What may be the first word of a command that takes a step of the newest run in place of a run."""
    return [*complete_steps(ctx, param, incomplete), *complete_runs(ctx, param, incomplete)]


def _home(ctx: click.Context) -> Path:
    home: Any = ctx.params.get("home") or ".worldsize"
    return Path(home)
