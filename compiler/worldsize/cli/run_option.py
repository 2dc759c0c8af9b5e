"""The option that says where runs are kept, and the argument that names one."""

from __future__ import annotations

from pathlib import Path

import click

from worldsize.cli import formatting

runs_dir = click.option(
    "--runs-dir",
    "home",
    type=click.Path(file_okay=False, path_type=Path),
    default=".worldsize",
    show_default=True,
    help="Where runs are kept.",
)


def find_run(home: Path, text: str) -> Path:
    """The folder of the run that the user means; without such a run the command ends."""
    from worldsize.running.record import history  # noqa: PLC0415 - `--help` needs none of it

    try:
        return history.find_run(home, text)
    except LookupError as error:
        formatting.refuse(str(error.args[0]), "`worldsize runs` lists them")
