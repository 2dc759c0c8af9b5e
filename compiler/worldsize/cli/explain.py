"""`worldsize explain`: the page of a rule, the list of all, or when a cron expression fires."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  worldsize explain                       all rules
  worldsize explain WS203                 one page
  worldsize explain yaml-duplicate-key    the same, by slug
  worldsize explain "0 3 * * 1"           when this cron expression fires next
"""


@click.command(epilog=EPILOG)
@click.argument("name", required=False, metavar="[CODE|SLUG|CRON]")
@click.option(
    "--write", type=click.Path(file_okay=False, path_type=Path), help="Write all pages as Markdown."
)
def command(name: str | None, write: Path | None) -> None:
    """Print the page of a rule, or the next fire times of a cron expression."""
    from worldsize.rules import pages, registry  # noqa: PLC0415 - `--help` needs none of it

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
        from worldsize.base.suggest import did_you_mean  # noqa: PLC0415

        advice = did_you_mean(name, registry.names()) or "`worldsize explain` lists all rules"
        raise click.UsageError(f"`{name}` is not the code or slug of a rule: {advice}")
    click.echo(pages.render_plain(known), nl=False)


def _fire_times(expression: str) -> None:
    """The next five fire times, or what is wrong with the expression."""
    from datetime import datetime  # noqa: PLC0415

    from worldsize.spec import cron, cron as fire_times  # noqa: PLC0415

    faults = cron.check_cron(expression)
    wrong = [fault for fault in faults if not fault.ignored]
    if wrong:
        raise click.UsageError("; ".join(f"{fault.message}: {fault.help}" for fault in wrong))
    for fault in faults:
        click.echo(f"note: {fault.message}")
    now = datetime.now()
    click.echo(f"`{expression}` fires next, on the clock of the schedule's `time_zone`:")
    for moment in fire_times.next_times(expression, now):
        click.echo(f"  {moment:%a %Y-%m-%d %H:%M}")
