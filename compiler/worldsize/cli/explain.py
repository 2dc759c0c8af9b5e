"""`worldsize explain`: prints the page of a rule, the list of rules, or the times of a cron expression."""

from __future__ import annotations

from pathlib import Path

import click

from worldsize.cli import completion

EPILOG = """\b
Examples:
  worldsize explain                       all rules
  worldsize explain WS203                 one page
  worldsize explain yaml-duplicate-key    the same, by slug
  worldsize explain "0 3 * * 1"           the next times of this cron expression
"""


@click.command(epilog=EPILOG)
@click.argument("name", required=False, metavar="[CODE|SLUG|CRON]", shell_complete=completion.complete_rules)
@click.option(
    "--write", type=click.Path(file_okay=False, path_type=Path), help="Write all pages as Markdown."
)
def command(name: str | None, write: Path | None) -> None:
    """Print the page of a rule, or the next times of a cron expression."""
    from worldsize.rules import pages, registry

    if write is not None:
        for path in pages.write(write):
            click.echo(path)
        return
    if name is None:
        click.echo(pages.render_table(), nl=False)
        return
    if len(name.split()) > 1:
        _fire_times(name)
        return
    known = registry.find(name)
    if known is None:
        from worldsize.base.suggest import did_you_mean

        advice = did_you_mean(name, registry.names()) or "`worldsize explain` lists all rules"
        raise click.UsageError(f"`{name}` is not the code or slug of a rule: {advice}")
    click.echo(pages.render_plain(known), nl=False)


def _fire_times(expression: str) -> None:
    """Print the next five times, or what is wrong with the expression."""
    from datetime import datetime

    from worldsize.spec import cron

    faults = cron.check_cron(expression)
    wrong = [fault for fault in faults if not fault.ignored]
    if wrong:
        raise click.UsageError("; ".join(f"{fault.message}: {fault.help}" for fault in wrong))
    for fault in faults:
        click.echo(f"note: {fault.message}")
    now = datetime.now()
    click.echo(f"`{expression}` fires next, on the clock of the schedule's `time_zone`:")
    for moment in cron.next_times(expression, now):
        click.echo(f"  {moment:%a %Y-%m-%d %H:%M}")
