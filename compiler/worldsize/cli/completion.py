"""What the shell completes: the ids of runs, their steps, and the codes of rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

MAX_RUNS = 50


def complete_runs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of runs of the home, the newest first, with their states; and ``last``."""
    from click.shell_completion import CompletionItem

    from worldsize.running.record.history import list_runs, load_run

    roots = [root for root in reversed(list_runs(_home(ctx))) if root.name.startswith(incomplete)][:MAX_RUNS]
    found = []
    for root in roots:
        run = load_run(root)
        found.append(CompletionItem(root.name, help=f"{run.state} {Path(run.label).name}".strip()))
    if roots and "last".startswith(incomplete):
        found.insert(0, CompletionItem("last", help="the newest run"))
    return found


def complete_steps(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The steps of the run that the command line names, else of the newest."""
    from click.shell_completion import CompletionItem

    from worldsize.running.record.history import find_run, load_run

    try:
        run = load_run(find_run(_home(ctx), str(ctx.params.get("run") or "last")))
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


def complete_rules(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The codes of rules, and their slugs once a slug is begun."""
    from click.shell_completion import CompletionItem

    from worldsize.rules import registry

    begun = incomplete.lower()
    return [
        CompletionItem(name, help=rule.summary)
        for rule in registry.rules()
        for name in (rule.code, rule.slug)
        if name.lower().startswith(begun) and (name == rule.code or begun)
    ]


def _home(ctx: click.Context) -> Path:
    home: Any = ctx.params.get("home") or ctx.params.get("runs_dir") or ".worldsize"
    return Path(home)
