"""`worldsize retrain`: one look at a spec and its data, which trains, promotes, or does nothing."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from worldsize.cli import common, run_folders, workspace_options
from worldsize.cli import run as running_command
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.documents.errors import SpecError
from worldsize.retraining.local import InterruptedLookError, look
from worldsize.retraining.look import Outcome

if TYPE_CHECKING:
    from worldsize.retraining.decide import Notice

EPILOG = """\b
Examples:
  worldsize retrain sales.yml                        train if anything is new, and promote what is better
  worldsize retrain sales.yml --now 2026-03-02T03:00Z    as a look at that time, for `window`

\b
The spec says in `retrain:` when to train and when to promote. The pipeline compares the model that was
just trained with the champion, on rows that neither has seen, and then promotes it or keeps the champion.
A run that was interrupted is continued. Two looks at the same moment train once.
Exit status: 0 for every decision, 1 for a fault of the spec or of the data (`stop`), 2 usage.
"""


class Moment(click.ParamType[Any]):
    """A time of day with its zone; without one it is UTC."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time; exits if the text is none."""
        try:
            time = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"`{value}` is not a time such as `2026-03-02T03:00Z`", param, ctx)
        return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


@click.command(epilog=EPILOG)
@click.argument("spec", type=common.SpecPath("a spec"), metavar="SPEC")
@click.option("--now", type=Moment(), help="The time of the look, by default that of the clock.")
@run_folders.make_home_option("--runs-dir", "Where runs, MLflow's database and artifacts are kept.")
@running_command.quiet_option
@common.json_option
@workspace_options.named
def command(
    spec: Path,
    *,
    now: datetime | None,
    home: Path,
    quiet: bool,
    as_json: bool,
    azure: WorkspaceChoice | None,
) -> None:
    """Look whether a spec's model is to be trained again, and do it."""
    moment = (now or datetime.now(timezone.utc)).timestamp()
    with running_command.exit_on_refusal():
        view = running_command.choose_view(quiet=quiet or as_json, home=home)
        try:
            if azure is None:
                outcome = look(spec, home=home, now=moment, view=view, notify=_notify)
            else:
                outcome = _look_at_workspace(spec, azure, moment)
        except InterruptedLookError as error:
            raise SystemExit(128 + error.number) from None
        except SpecError as error:
            if as_json:
                first = error.diagnostics[0].message if error.diagnostics else str(error)
                _print(Outcome("stop", first), as_json=True)
            raise
    _print(outcome, as_json=as_json)
    raise SystemExit(1 if outcome.action == "stop" else 0)


def _look_at_workspace(spec: Path, azure: WorkspaceChoice, now: float) -> Outcome:
    """Look as the scheduled job does; what it submits has its verdict later."""
    from worldsize.retraining import workspace  # azure-ai-ml takes a second

    with azure.connect() as rest:
        return workspace.look(spec, rest, now=now, notify=_notify)


def _print(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(to_builtins(outcome), indent=2))
    else:
        common.say_sentences(f"{outcome.action}: {outcome.reason}")


def _notify(notice: Notice) -> None:
    common.say_sentences(f"notice: {notice.text}", err=True)
