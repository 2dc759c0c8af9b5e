"""`worldsize adopt`: makes a script for one GPU a distributed one, and proves it."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from worldsize import api
from worldsize.adopting.apply import Adopted, AlreadyAdoptedError, Prepared, adopt
from worldsize.adopting.model import AdoptError, Adoption, Obstacle
from worldsize.adopting.options.arguments import read_arguments
from worldsize.adopting.project.files import complete_environment
from worldsize.adopting.project.spec import CONDA_FILE, ProjectRequest, UnknownSizeError
from worldsize.adopting.proving.curves import LOOSE, TOLERANCE, ComparedStep, Comparison
from worldsize.adopting.proving.prove import PROCESSES, Failed, Proof
from worldsize.base.shown_text import mark_controls
from worldsize.base.source import Source
from worldsize.base.wording import describe_os_error, plural, quoted_list
from worldsize.cli import common, estimate_view
from worldsize.documents.diagnostics.diagnostic import Diagnostic, Severity
from worldsize.documents.diagnostics.snippet import show_path
from worldsize.documents.diagnostics.text import render_diagnostic, wants_colour
from worldsize.documents.errors import SpecError
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
    common.require_path(str(script), "worldsize adopt", "a training script", script=True)

    try:
        words = tuple(shlex.split(arguments))
    except ValueError as error:
        raise click.BadParameter(
            f"{str(error).lower()} in `{arguments}`", param_hint="'--arguments'"
        ) from None
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
        common.say(json.dumps(describe_adopted(adopted), indent=2, ensure_ascii=False))
    else:
        _show_outcome(adopted, default_size=options["instance_type"] is None)
    raise SystemExit(int(adopted.failed))


@contextlib.contextmanager
def exit_on_refusal() -> Iterator[None]:
    """Turn what is wrong with a script, an option or a file into a message and an exit status."""
    try:
        with common.exit_on_error():
            yield
    except AdoptError as error:
        common.say(render_refusal(error, colour=wants_colour(sys.stderr)), err=True, nl=False)
        raise SystemExit(1) from None
    except UnknownSizeError as error:
        raise click.BadParameter(str(error), param_hint="'--instance-type'") from None
    except OSError as error:
        if error.filename is None:
            raise
        common.refuse(f"`{error.filename}`: {describe_os_error(error)}")


def _show_stage(data: Path | None, stage: Prepared | Proof) -> None:
    if isinstance(stage, Proof):
        common.say(render_proof(stage))
        return
    if stage.lacking:
        lacking = quoted_list(stage.lacking)
        common.say(f"`{CONDA_FILE}` lacks {lacking}, which the script needs: `--write` adds it\n")
    adoption, colour = stage.request.adoption, wants_colour(sys.stdout)
    if adoption.text == adoption.source:
        common.say(f"`{adoption.profile.path}` is ready for several processes: nothing to change\n")
    else:
        click.echo(render_diff(adoption, colour=colour), color=True)
    if adoption.obstacles:
        source = Source(adoption.profile.path, adoption.source)
        click.echo(render_obstacles(adoption.obstacles, source, colour=colour), color=True)
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
    if adopted.checked is not None:
        common.say(str(adopted.checked.planned.complete_plan), nl=False)
        try:
            forecasts = api.forecast_steps(adopted.checked)
            common.say("\n" + estimate_view.render_forecasts(forecasts), nl=False)
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
    elif adopted.failed:
        reason = "the spec has the errors above" if adopted.report.errors else "the proof above fails"
        common.say(f"\nnothing is written: {reason}")
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


_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")
_CONTEXT = 2
_COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m", "#": "\x1b[2m"}
_RESET = "\x1b[0m"
_ROWS = 11


def render_diff(adoption: Adoption, *, colour: bool, explains: bool = True) -> str:
    """The unified diff; if it ``explains``, with the rule that asks for a change and why above its line."""
    name = show_path(adoption.profile.path)
    before, after = (text.splitlines(keepends=True) for text in (adoption.source, adoption.text))
    lines = [*difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=_CONTEXT)]
    places = _list_places(lines)
    reasons: dict[int, dict[str, None]] = {}
    for change in adoption.changes if places and explains else ():
        wanted = f"+{change.inserted}" if change.inserted else "-"
        index = min(
            places, key=lambda at: (not places[at][1].startswith(wanted), abs(places[at][0] - change.line))
        )
        reason = f"{change.rule}: {change.reason}" if change.rule else change.reason
        reasons.setdefault(index, {})[reason] = None
    shown: list[str] = []
    for index, line in enumerate(lines):
        shown += [f"# {reason}" for reason in reasons.get(index, ())]
        shown.append(mark_controls(line.rstrip("\r\n")))
    return "".join(f"{_paint(line, colour=colour)}\n" for line in shown)


def _list_places(lines: Sequence[str]) -> dict[int, tuple[int, str]]:
    """The changed lines of a diff by their index: the line of the original, and the text unindented."""
    places: dict[int, tuple[int, str]] = {}
    number = 0
    for index, line in enumerate(lines[2:], 2):
        if match := _HUNK.match(line):
            number = int(match[1])
        else:
            if line[0] in "+-":
                places[index] = number, line[0] + line[1:].strip()
            number += line[0] != "+"
    return places


def _paint(line: str, *, colour: bool) -> str:
    start = _COLOURS.get(line[:1]) if colour and not line.startswith(("+++", "---")) else None
    return f"{start}{line}{_RESET}" if start else line


def render_refusal(error: AdoptError, *, colour: bool) -> str:
    """Why a script cannot be adopted, with its place."""
    finding = error.finding
    return _render(finding.message, finding.span, finding.help, "error", error.source, colour=colour)


def render_obstacles(obstacles: Sequence[Obstacle], source: Source, *, colour: bool) -> str:
    """What is left to the author."""
    return "\n".join(
        _render(obstacle.message, obstacle.span, obstacle.help, "warning", source, colour=colour)
        for obstacle in obstacles
    )


def _render(
    message: str, span: Any, help_: str | None, severity: Severity, source: Source, *, colour: bool
) -> str:
    finding = Diagnostic("", "", severity, message, span, help_)
    return render_diagnostic(finding, {source.path: source}, colour=colour)


def render_proof(proof: Proof) -> str:
    """The two curves side by side, and what they say."""
    if proof.comparison is None:
        return _render_failed(proof.failed or Failed("there is no curve"))
    comparison = proof.comparison
    lines = [
        f"the original in one process, the adopted script in {PROCESSES}; global batch {proof.batch}",
        f"{'step':>6}  {'original':>11}  {'adopted':>11}  {'difference':>11}",
        *(
            f"{step.step:>6}  {step.original:>11.6f}  {step.adopted:>11.6f}  {step.difference:>11.2e}"
            for step in _choose_rows(comparison.steps)
        ),
    ]
    if comparison.steps:
        lines.append(f"{'worst':>6}  {'':>11}  {'':>11}  {comparison.worst.difference:>11.2e}")
    lines += _conclude(comparison)
    if proof.note is not None:
        lines.append(f"note: {proof.note}")
    return "".join(f"{line}\n" for line in lines)


def _choose_rows(steps: Sequence[ComparedStep]) -> Iterator[ComparedStep]:
    """At most as many as fit: the first, the last, and others at equal distances."""
    count = min(len(steps), _ROWS)
    return (steps[round(index * (len(steps) - 1) / max(count - 1, 1))] for index in range(count))


def _conclude(comparison: Comparison) -> Iterator[str]:
    count = plural(len(comparison.steps), "step")
    if comparison.verdict == "same":
        yield f"same loss curve: all {count} within {TOLERANCE}"
        return
    if comparison.verdict == "alike":
        apart = f"{100 * comparison.mean_difference:.2g} %"
        yield f"the curves differ by {apart} of the loss on average over {count}, for a known cause:"
        yield from (f"  {reason}" for reason in comparison.reasons)
        yield f"  (with a known cause, up to {LOOSE:.0%} is accepted)".replace("%", " %")
        return
    if comparison.faults:
        yield from (f"error: {fault}" for fault in comparison.faults)
        return
    first = comparison.first_outside
    step = first.step if first is not None else 1
    yield f"error: the curves differ from step {step} on by more than {TOLERANCE}"
    for reason in comparison.reasons:
        yield f"  {reason}, but that explains less than this difference"
    if not comparison.reasons:
        yield "  no cause is known: look at what the script draws at random or computes over a whole batch"


def _render_failed(failed: Failed) -> str:
    lines = [f"error: {failed.message}", *(f"  | {mark_controls(line)}" for line in failed.lines)]
    if failed.help:
        lines.append(f"  = help: {failed.help}")
    return "".join(f"{line}\n" for line in lines)


def describe_adoption(adoption: Adoption) -> dict[str, Any]:
    """The script, what changes in it and why, and what is left to the author, for programs."""
    return {
        "script": adoption.profile.path,
        "framework": adoption.profile.framework,
        "diff": render_diff(adoption, colour=False, explains=False),  # `changes` has the reasons
        "changes": [common.describe(change, "line", "rule", "reason") for change in adoption.changes],
        "obstacles": [
            {
                **common.describe(obstacle.span, "line", "column"),
                **common.describe(obstacle, "message", "help"),
            }
            for obstacle in adoption.obstacles
        ],
    }


def describe_proof(proof: Proof) -> dict[str, Any]:
    """A proof for JSON."""
    if proof.comparison is None:
        failed = proof.failed or Failed("there is no curve")
        return {"verdict": "failed", "message": failed.message, "help": failed.help, "log": [*failed.lines]}
    comparison = proof.comparison
    return {
        "verdict": comparison.verdict,
        "tolerance": TOLERANCE,
        "global_batch_size": proof.batch,
        "reasons": [*comparison.reasons, *comparison.faults],
        "note": proof.note,
        "steps": [common.describe(step, "step", "original", "adopted") for step in comparison.steps],
    }


def describe_adopted(adopted: Adopted) -> dict[str, Any]:
    """Everything for programs."""
    checked = adopted.checked
    return {
        **describe_adoption(adopted.adoption),
        "proof": describe_proof(adopted.proof) if adopted.proof is not None else None,
        "spec": adopted.spec,
        "findings": [
            {
                **common.describe(finding, "code", "severity"),
                **common.describe(finding.span, "path", "line", "column"),
                **common.describe(finding, "message", "help"),
            }
            for finding in adopted.report.diagnostics
        ],
        "plan": api.plan_document(checked.planned.complete_plan) if checked is not None else None,
        "written": list(map(str, adopted.written)),
    }
