"""`worldsize check`: diagnostics for files and folders, in five formats."""

from __future__ import annotations

import click

FORMATS = ("text", "json", "sarif", "github", "junit")

EPILOG = """\b
Examples:
  worldsize check .                                every spec and Azure ML file below
  worldsize check spec.yml --ignore WS4            without the learning-rate family
  worldsize check . --format sarif > report.sarif  for code scanning

\b
Exit status: 0 clean, 1 findings, 2 usage, 3 a fault of worldsize itself.
Silence one line with a comment: # worldsize: ignore[WS203] reason
"""


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True), metavar="PATH...")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True, help="Output."
)
@click.option(
    "--select", multiple=True, metavar="CODE", help="Report only these codes, WS2 for a whole family."
)
@click.option("--ignore", multiple=True, metavar="CODE", help="Do not report these codes.")
def command(paths: tuple[str, ...], format_: str, select: tuple[str, ...], ignore: tuple[str, ...]) -> None:
    """Check specs and Azure ML YAML, files or folders."""
    from worldsize.checking import console  # noqa: PLC0415 - `worldsize check --help` needs none of it

    try:
        status = console.check(paths, format_=format_, select=_words(select), ignore=_words(ignore))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    raise SystemExit(status)


def _words(options: tuple[str, ...]) -> list[str]:
    """``--select WS2 --select WS301,WS302`` as one list."""
    return [word for option in options for word in option.replace(",", " ").split()]
