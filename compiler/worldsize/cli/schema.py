"""`worldsize schema`: prints a JSON Schema, for editors and other tools."""

from __future__ import annotations

import click

from worldsize.documents.shape import read_schema

NAMES = ("spec", "worldsize", "estimate", "plan", "advice")

EPILOG = """\b
Examples:
  worldsize schema > spec.schema.json    the schema of specs
  worldsize schema worldsize             that of worldsize.yml
  worldsize schema plan                  that of `worldsize plan --json`
"""


@click.command(epilog=EPILOG)
@click.argument("name", type=click.Choice(NAMES), default="spec", metavar="[NAME]")
def command(name: str) -> None:
    """Print the JSON Schema of specs, or of one of: worldsize, estimate, plan, advice."""
    click.echo(read_schema(name), nl=False)
