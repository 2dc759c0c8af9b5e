"""`worldsize check`: diagnostics for files and folders, in five formats."""

from __future__ import annotations

import gc
import os
import sys

import click

FORMATS = ("text", "json", "sarif", "github", "junit")

EPILOG = """\b
Examples:
  worldsize check .                                every spec and Azure ML file below
  worldsize check spec.yml --ignore WS4            without the learning-rate family
  worldsize check . --fix --diff                   show what the safe fixes would change
  worldsize check . --format sarif > report.sarif  for code scanning

\b
Exit status: 0 clean, 1 findings, 2 usage, 3 an internal error of worldsize.
Suppress a finding on one line with a comment: # worldsize: ignore[WS203] reason
"""


def _require_existing(
    _ctx: click.Context, _param: click.Parameter, paths: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse paths that do not exist; a broken link exists, and is reported as an unreadable file."""
    for path in paths:
        if not os.path.lexists(path):
            raise click.BadParameter(f"Path '{path}' does not exist.")
    return paths


@click.command(epilog=EPILOG)
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(), callback=_require_existing, metavar="PATH..."
)
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True, help="Output."
)
@click.option(
    "--select", multiple=True, metavar="CODE", help="Report only these codes, WS2 for a whole family."
)
@click.option("--ignore", multiple=True, metavar="CODE", help="Do not report these codes.")
@click.option("--fix", is_flag=True, help="Apply the safe fixes, in place.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
def command(
    paths: tuple[str, ...],
    *,
    format_: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fix: bool,
    diff: bool,
) -> None:
    """Check specs and Azure ML YAML, files or folders."""
    from worldsize.checking import checker

    gc.disable()  # collecting cycles takes a fifth of the time on large files, and finds none
    try:
        rules = {"select": _split_codes(select), "ignore": _split_codes(ignore)}
        if fix or diff:
            status = _fix(paths, format_, rules, write=not diff)
        else:
            status = checker.print_check(paths, format_=format_, **rules)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    finally:
        gc.enable()
    raise SystemExit(status)


def _fix(paths: tuple[str, ...], format_: str, rules: dict[str, list[str]], *, write: bool) -> int:
    """Fix the files and report the remaining findings, or only show the changes."""
    from worldsize import fixing  # most checks only look
    from worldsize.checking import checker
    from worldsize.diagnostics.text import wants_colour

    result = fixing.fix(paths, **rules, write=write)
    if write:
        checker.write_output(result.report.render(format_, colour=wants_colour(sys.stdout)))
        return result.report.exit_code
    checker.write_output("".join(fixing.unified_diff(change) for change in result.changes))
    files = f"{len(result.changes)} file{'s' * (len(result.changes) != 1)}"
    click.echo(f"would fix {result.report.fixed} in {files}", err=True)
    return int(bool(result.changes))


def _split_codes(options: tuple[str, ...]) -> list[str]:
    """``--select WS2 --select WS301,WS302`` as one list."""
    return [word for option in options for word in option.replace(",", " ").split()]
