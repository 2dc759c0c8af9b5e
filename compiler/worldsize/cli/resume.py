"""`worldsize resume`: a run goes on where its runner or machine died."""

from __future__ import annotations

from pathlib import Path

import click

from worldsize.cli import homes

EPILOG = """\b
Examples:
  worldsize resume last          the newest run
  worldsize resume 20260102-03   a run by the beginning of its id

\b
Steps that had succeeded are kept if their outputs are what they were. A step that was interrupted
begins anew, with its output `checkpoints` as it was; its logs move to logs/attempt-N.
A pipeline compiled from a spec is the one of the run; any other is read again.
Exit status: as of `worldsize run`.
"""


@click.command(epilog=EPILOG)
@click.argument("run", metavar="RUN")
@homes.runs_dir
@click.option("-q", "--quiet", is_flag=True, help="Print the summary only.")
def command(run: str, home: Path, *, quiet: bool) -> None:
    """Go on with a run that was broken off, or that failed."""
    from worldsize import running  # noqa: PLC0415 - `--help` needs none of it
    from worldsize.cli import run as running_command  # noqa: PLC0415

    root = homes.find(home, run)
    with running_command.answering():
        result = running.resume(root, view=running_command.view(quiet=quiet))
    running_command.conclude(result, quiet=quiet)
