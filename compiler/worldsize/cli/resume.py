"""`worldsize resume`: a run goes on where its runner or machine died."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from worldsize.cli import common

EPILOG = """\b
Examples:
  worldsize resume last          the newest run
  worldsize resume 20260102-03   a run by the beginning of its id

\b
Steps that had succeeded are kept if their outputs are what they were. A step that was interrupted
begins anew, with its output `checkpoints` as it was; its logs move to logs/attempt-N.
A pipeline compiled from a spec is the one of the run; any other is read again.
The value of a secret given by --set is not kept: it is asked for again, without echo.
Exit status: as of `worldsize run`.
"""


@click.command(epilog=EPILOG)
@click.argument("run", metavar="RUN")
@common.runs_dir
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A secret that the run was given: its value is not kept. A terminal is asked for it.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print warnings and the summary only.")
def command(run: str, home: Path, *, settings: tuple[str, ...], quiet: bool) -> None:
    """Go on with a run that was broken off, or that failed."""
    from worldsize import running  # noqa: PLC0415 - `--help` needs none of it
    from worldsize.cli import run as running_command  # noqa: PLC0415

    root = common.find_run(home, run)
    given = running_command.parse_settings(settings)
    with running_command.exit_on_refusal():
        shown = running_command.choose_view(quiet=quiet)
        result = running.resume(root, settings=given, ask=_secret_prompt(), view=shown)
    running_command.exit_with_result(result, quiet=quiet)


def _secret_prompt() -> Callable[[str], str] | None:
    """Asks for secrets without showing what is typed, where somebody can type."""
    if not sys.stdin.isatty():
        return None
    return lambda name: str(click.prompt(name, hide_input=True, err=True))
