"""`worldsize explain`: prints the page of a rule, the list of rules, or the times of a cron expression."""

from __future__ import annotations

import json
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from worldsize.base.suggest import did_you_mean
from worldsize.cli import common
from worldsize.rules import pages, registry
from worldsize.rules.registry import Rule

EPILOG = """\b
Examples:
  worldsize explain                       all rules
  worldsize explain WS5                   the rules of a family
  worldsize explain WS203                 one page
  worldsize explain yaml-duplicate-key    the same, by slug
  worldsize explain "0 3 * * 1"           the next times of this cron expression
"""


def complete_rules(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The codes of rules, and their slugs once a slug is begun."""
    begun = incomplete.lower()
    return [
        CompletionItem(name, help=rule.summary)
        for rule in registry.rules()
        for name in (rule.code, rule.slug)
        if name.lower().startswith(begun) and (name == rule.code or begun)
    ]


@click.command(epilog=EPILOG)
@click.argument("name", required=False, metavar="[CODE|FAMILY|SLUG|CRON]", shell_complete=complete_rules)
@click.option(
    "--write", type=click.Path(file_okay=False, path_type=Path), help="Write all pages as Markdown."
)
@common.json_option
def command(name: str | None, write: Path | None, *, as_json: bool) -> None:
    """Print the page of a rule, or the next times of a cron expression."""
    if write is not None:
        for path in pages.write(write):
            click.echo(path)
        return
    if name is None or (registry.find(name) is None and registry.begins_code(name.upper())):
        _list_rules((name or "").upper(), as_json=as_json)
        return
    if len(name.split()) > 1:
        if as_json:
            raise click.UsageError("the times of a cron expression have no JSON: remove `--json`")
        _fire_times(name)
        return
    rule = registry.find(name)
    if rule is None:
        advice = did_you_mean(name, registry.names()) or "`worldsize explain` lists all rules"
        raise click.UsageError(f"`{name}` is not the code or slug of a rule: {advice}")
    if as_json:
        click.echo(json.dumps({**_document(rule), "page": pages.render_plain(rule)}, indent=2))
    else:
        click.echo(pages.render_plain(rule), nl=False)


def _list_rules(beginning: str, *, as_json: bool) -> None:
    """Print the rules whose codes begin so."""
    if as_json:
        rules = [_document(rule) for rule in registry.rules() if rule.code.startswith(beginning)]
        click.echo(json.dumps(rules, indent=2))
    else:
        click.echo(pages.render_table(beginning), nl=False)


def _document(rule: Rule) -> dict[str, str]:
    return common.describe(rule, "code", "slug", "family", "severity", "confidence", "summary")


def _fire_times(expression: str) -> None:
    """Print the next five times, or what is wrong with the expression."""
    faults, times = pages.find_fire_times(expression)
    if not times:
        wrong = [f"{fault.message}: {fault.help}" for fault in faults if not fault.ignored]
        raise click.UsageError("; ".join(wrong))
    for fault in faults:
        click.echo(f"note: {fault.message}")
    click.echo(f"`{expression}` fires next, on the clock of the schedule's `time_zone`:")
    for time in times:
        click.echo(f"  {time}")
