"""`worldsize explain`: the page of a rule, or the list of all."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  worldsize explain                       all rules
  worldsize explain WS203                 one page
  worldsize explain yaml-duplicate-key    the same, by slug
"""


@click.command(epilog=EPILOG)
@click.argument("rule", required=False, metavar="[CODE|SLUG]")
@click.option(
    "--write", type=click.Path(file_okay=False, path_type=Path), help="Write all pages as Markdown."
)
def command(rule: str | None, write: Path | None) -> None:
    """Print the page of a rule."""
    from worldsize.rules import pages, registry  # noqa: PLC0415 - `--help` needs none of it

    if write is not None:
        for path in pages.write(write):
            click.echo(path)
        return
    if rule is None:
        click.echo(pages.table(), nl=False)
        return
    entry = registry.find(rule)
    if entry is None:
        from worldsize.diagnostics.suggest import did_you_mean  # noqa: PLC0415

        advice = did_you_mean(rule, registry.names()) or "`worldsize explain` lists all rules"
        raise click.UsageError(f"`{rule}` is not the code or slug of a rule: {advice}")
    click.echo(pages.plain(entry), nl=False)
