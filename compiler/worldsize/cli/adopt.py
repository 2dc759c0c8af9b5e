"""`worldsize adopt`: makes a script for one GPU a distributed one, and proves it."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from worldsize import api
from worldsize.adopting.apply import Adopted, AlreadyAdoptedError, Prepared, ProofError, adopt
from worldsize.adopting.model import AdoptError
from worldsize.adopting.options.arguments import read_arguments
from worldsize.adopting.project.files import ProjectRequest
from worldsize.adopting.project.missing_packages import complete_environment
from worldsize.adopting.project.spec import CONDA_FILE, UnknownSizeError
from worldsize.adopting.proving.prove import Proof
from worldsize.base.source import Source
from worldsize.base.wording import describe_os_error, quoted_list
from worldsize.cli import adopt_report, common, estimate_table
from worldsize.documents.diagnostics.text import wants_colour
from worldsize.documents.errors import OutputError, SpecError
from worldsize.facts.prices import PriceFileError

EPILOG = """\b
Examples:
  worldsize adopt train.py                       the diff, the proof and the plan; nothing is written
  worldsize adopt train.py --data data -o job    with its data; the adopted copy and its spec go to `job`
  worldsize adopt train.py --write               edit the script, and write its spec beside it
  worldsize adopt train.py --arguments '--epochs 3 --model small'

\b
The proof runs copies of the script here, with this Python: the original in one process, the adopted one
in two, with half of the batch each. Both read the same samples in the same order, so the loss of each step
must agree.

\b
Exit status: 0 adopted, and the curves agree or differ for a known cause; 1 the script is refused, the
curves differ, or the spec has errors: nothing is written; 2 usage; 3 an internal error of worldsize.
"""


@click.command(epilog=EPILOG)
@click.argument("script", type=click.Path(path_type=Path))
@click.option(
    "--data", type=click.Path(exists=True, path_type=Path), help="The file or folder that the script reads."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the adopted copy, its environment and its spec into this folder, which is new or empty.",
)
@click.option("--write", is_flag=True, help="Edit the script in place, if the proof succeeds.")
@click.option("--instance-type", metavar="SIZE", help="The VM size of the job.")
@click.option("--instance-count", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--arguments", default="", metavar="TEXT", help="Other options of the script, as in a shell.")
@click.option("--no-run", "prove", flag_value=False, default=True, help="Skip the proof: run nothing.")
@click.option("--steps", type=click.IntRange(min=1), default=50, show_default=True, help="Of the proof.")
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="For each of the two runs of the proof.",
)
@common.json_option
def command(script: Path, *, arguments: str, as_json: bool, **options: Any) -> None:
    """Adopt a training script for one GPU: show the diff, prove the loss curve, write and plan the spec."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    common.require_path(str(script), "worldsize adopt", "a training script", script=True)

    words = _split(arguments)
    show = None if as_json else partial(_show_stage, options["data"])
    with exit_on_refusal():
        try:
            adopted = adopt(script, arguments=words, show=show, **options)
        except AlreadyAdoptedError as error:
            if as_json:
                raise
            _say_adopted(error, options["data"], options["instance_type"])
            return
    if as_json:
        common.say(json.dumps(adopt_report.describe_adopted(adopted), indent=2, ensure_ascii=False))
    else:
        _show_outcome(adopted, default_size=options["instance_type"] is None)
    raise SystemExit(int(adopted.failed))


def _split(arguments: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(arguments))
    except ValueError as error:
        raise click.BadParameter(
            f"{str(error).lower()} in `{arguments}`", param_hint="'--arguments'"
        ) from None


@contextlib.contextmanager
def exit_on_refusal() -> Iterator[None]:
    """Turn what is wrong with a script, an option or a file into a message and an exit status."""
    try:
        yield
    except AdoptError as error:
        common.say(adopt_report.render_refusal(error, colour=wants_colour(sys.stderr)), err=True, nl=False)
        raise SystemExit(1) from None
    except UnknownSizeError as error:
        raise click.BadParameter(str(error), param_hint="'--instance-type'") from None
    except (OutputError, ProofError) as error:
        common.refuse(str(error), error.help)
    except OSError as error:
        if error.filename is None:
            raise
        common.refuse(f"`{error.filename}`: {describe_os_error(error)}")


def _show_stage(data: Path | None, stage: Prepared | Proof) -> None:
    if isinstance(stage, Proof):
        common.say(adopt_report.render_proof(stage))
        return
    if stage.lacking:
        lacking = quoted_list(stage.lacking)
        common.say(f"`{CONDA_FILE}` lacks {lacking}, which the script needs: `--write` adds it\n")
    adoption, colour = stage.request.adoption, wants_colour(sys.stdout)
    if adoption.text == adoption.source:
        common.say(f"`{adoption.profile.path}` is ready for several processes: nothing to change\n")
    else:
        click.echo(adopt_report.render_diff(adoption, colour=colour), color=True)
    if adoption.obstacles:
        source = Source(adoption.profile.path, adoption.source)
        click.echo(adopt_report.render_obstacles(adoption.obstacles, source, colour=colour), color=True)
    if data is not None and adoption.profile.flag("data") is None:
        common.say(f"`--data {data}` is not used: no option of `{stage.request.script}` takes its data")
        common.say('  read its path from an option, such as `parser.add_argument("--data")`\n')
    if stage.unproven is not None:
        common.say(f"not proven: {stage.unproven}\n")


def _show_outcome(adopted: Adopted, *, default_size: bool) -> None:
    if not adopted.written:
        common.say(adopted.spec)
    if adopted.report.exit_code:
        click.echo(adopted.report.render(), nl=False)
    if adopted.planned is not None:
        common.say(str(adopted.planned.plan), nl=False)
        try:
            forecasts = api.forecast_steps(adopted.planned)
            common.say("\n" + estimate_table.render_forecasts(forecasts), nl=False)
        except (SpecError, PriceFileError) as error:
            common.say(f"time and cost are not known: {error}")
    if default_size:
        size = adopted.target.instance_type
        common.say(f"\nVM size {size} is the default: `--instance-type` chooses another")
    for path in adopted.written:
        common.say(f"wrote {path}")
    for name in adopted.unknown:
        common.say(f"no package here has `{name}`, which the script needs: add it to `conda.yml`")
    if adopted.written:
        spec = next(path for path in adopted.written if path.suffix == ".yml" and path.name != CONDA_FILE)
        common.say(f"\ntry it here: worldsize run {shlex.quote(str(spec))}")
    elif adopted.report.errors:
        common.say("\nnothing is written: the spec has the errors above")
    else:
        common.say("\nnothing is written: `--write` edits the script, `-o DIR` writes a copy")


def _say_adopted(adopted: AlreadyAdoptedError, data: Path | None, size: str | None) -> None:
    """Add the packages that the environment lacks, and say what is left."""
    request, project = adopted.request, adopted.project
    completed = complete_environment(project)
    is_done = f"`{request.script}` is adopted already, and its spec is there"
    common.say(is_done if completed.lines else f"{is_done}: nothing to write")
    if completed.lines:
        path, lines = project.folder / CONDA_FILE, quoted_list(completed.lines)
        if completed.reason is None:
            common.say(f"wrote {path}: {lines}, which the script needs")
        else:
            common.say(f"  add {lines} to `{path}` yourself: {completed.reason}")
    for name in completed.unknown:
        needs = f"the script needs `{name}`, and no package here has it"
        common.say(f"  {needs}: see that `{CONDA_FILE}` installs it")
    for wish in _list_unwritten(request, data, size):
        common.say(f"  write {wish} in `{project.folder / project.spec}` yourself")


def _list_unwritten(request: ProjectRequest, data: Path | None, size: str | None) -> Iterator[str]:
    """What the command line asks of a spec that is there already."""
    if size is not None:
        yield f"`instance_type: {request.target.instance_type}`"
    if request.target.instance_count > 1:
        yield f"`instance_count: {request.target.instance_count}`"
    if data is not None:
        yield f"the path `{data}` of the input `data`"
    profile = request.adoption.profile
    words = [
        word
        for argument in read_arguments(profile.flags, request.arguments, profile.subcommand)
        if argument.flag is None or argument.flag != profile.flag("data")
        for word in argument.words
    ]
    if words:
        yield f"`{shlex.join(words)}` in `command`"
