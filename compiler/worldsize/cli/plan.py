"""`worldsize plan`: what a spec derives, and the arithmetic behind it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

EPILOG = """\b
Examples:
  worldsize plan pipelines/digits_ddp.yml           a table for people
  worldsize plan SPEC --json | jq .steps.train      the same for machines

\b
Exit status: 0 planned, 1 the spec has faults, 2 usage, 3 a fault of worldsize itself.
"""


@click.command(epilog=EPILOG)
@click.argument("spec", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="JSON, as schemas/plan.schema.json describes it.")
def command(spec: Path, as_json: bool) -> None:
    """Print what a spec derives, and the arithmetic behind it."""
    from worldsize import deriving  # noqa: PLC0415 - `worldsize plan --help` needs none of it
    from worldsize.errors import SpecError  # noqa: PLC0415

    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        derived = deriving.derive(spec)
    except SpecError as error:
        click.echo(error.render(colour=_colour(sys.stderr.isatty())), nl=False, color=True, err=True)
        internal = any(found.code == "WS000" for found in error.diagnostics)
        raise SystemExit(3 if internal else 1) from None
    if derived.warnings:
        shown = SpecError(derived.warnings, derived.sources)
        click.echo(shown.render(colour=_colour(sys.stderr.isatty())), nl=False, color=True, err=True)
    if as_json:
        import json  # noqa: PLC0415

        click.echo(json.dumps(deriving.document(derived.plan), indent=2, ensure_ascii=False))
        return
    from worldsize.cli import plan_table  # noqa: PLC0415

    if _colour(sys.stdout.isatty()):
        plan_table.show_plan(derived.plan)
    else:
        click.echo(plan_table.text(derived.plan), nl=False)


def _colour(terminal: bool) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (terminal and os.environ.get("TERM") != "dumb")
