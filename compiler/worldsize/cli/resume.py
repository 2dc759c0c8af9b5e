"""`worldsize resume`: continues a run after its runner or machine stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from worldsize.cli import common, run_folders
from worldsize.cli import run as running_command
from worldsize.dsl import run as verbs
from worldsize.reporting.page import FILE
from worldsize.running.record.history import load_run

EPILOG = """\b
Examples:
  worldsize resume last          the newest run
  worldsize resume 20260102-03   a run by the beginning of its id

\b
Steps that succeeded are kept if their outputs are unchanged. An interrupted step starts again, with its
output `checkpoints` as it was; its logs move to logs/attempt-N. Faults of --kill, --drop-link and --chaos
are not injected again.
A pipeline that was compiled from a spec is not compiled again; any other pipeline is read again.
The value of a secret given by --set is not stored: you are asked for it again, without echo.
Exit status: as for `worldsize run`; 0 also for a run that had succeeded, which stays as it is.
"""


@click.command(epilog=EPILOG)
@click.argument("run", metavar="RUN", shell_complete=run_folders.complete_runs)
@run_folders.runs_dir
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A secret of the run, whose value is not stored. Without it, a terminal asks for the value.",
)
@running_command.report_option
@running_command.quiet_option
@common.json_option
def command(
    run: str, home: Path, *, settings: tuple[str, ...], no_report: bool, quiet: bool, as_json: bool
) -> None:
    """Continue an interrupted or failed run."""
    root = run_folders.find_run(home, run)
    secrets = common.parse_settings(settings)
    with running_command.exit_on_refusal():
        if (record := load_run(root)).state == "succeeded":
            common.say(f"run `{record.id}` has succeeded: run the pipeline again to repeat it", err=as_json)
            if as_json:
                page = root / FILE
                running_command.print_document(record, page if page.exists() else None)
            return
        view = running_command.choose_view(quiet=quiet or as_json, home=home)
        result = verbs.resume(root, settings=secrets, ask=_secret_prompt(), view=view)
        running_command.exit_with_result(result, quiet=quiet, as_json=as_json, report=not no_report)


def _secret_prompt() -> Callable[[str], str] | None:
    """A prompt for secrets without echo; None without a terminal."""
    if not sys.stdin.isatty():
        return None
    return lambda name: str(click.prompt(name, hide_input=True, err=True))
