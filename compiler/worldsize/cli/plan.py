"""`worldsize plan`: prints the plan of a spec, with the formula behind each number."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from worldsize import api, checking
from worldsize.api.forecast import StepForecast
from worldsize.base.wording import format_memory, plural
from worldsize.checking import CheckedSpec
from worldsize.cli import common, estimate_view, pictures, spec_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.documents.diagnostics.text import wants_colour
from worldsize.dsl import load, verbs
from worldsize.planning.memory.estimate import SHARES
from worldsize.planning.memory.step_memory import Need, explain_unknown
from worldsize.planning.model import Plan
from worldsize.planning.plan_text import list_blocks

EPILOG = """\b
Examples:
  worldsize plan pipelines/digits_ddp.yml           a table for people
  worldsize plan SPEC --json | jq .steps.train      the same for programs
  worldsize plan SPEC --memory                      with the memory of each training step
  worldsize plan SPEC --region westeurope           with the prices of another region
  worldsize plan SPEC --plot scaling.svg            and a picture: speed over instances, time of a step
  worldsize plan SPEC --from JOB --azure            with times calibrated by a job that trained this
  worldsize plan SPEC --set inputs.epochs=3         with another value of a pipeline input
  worldsize plan digits.py:digits                   of a Python function that calls `worldsize.plan`

\b
Exit status: 0 planned, 1 faults in the spec, 2 usage, 3 an internal error of worldsize.
"""


@click.command(epilog=EPILOG)
@click.argument("spec", type=common.FilePath(keep_functions=True))
@click.option("--json", "as_json", is_flag=True, help="JSON, as schemas/plan.schema.json describes it.")
@click.option(
    "--memory",
    "with_memory",
    is_flag=True,
    help="Add the memory that each process of a training step needs, by purpose.",
)
@click.option(
    "--import-model",
    is_flag=True,
    help="With --memory: run the code of your own models in a separate process, for their shapes.",
)
@spec_options.region_option
@pictures.plot_option
@spec_options.from_option
@common.set_option
def command(
    spec: Path,
    *,
    as_json: bool,
    with_memory: bool,
    import_model: bool,
    region: str | None,
    plot_file: Path | None,
    runs: tuple[str, ...],
    home: Path,
    azure: WorkspaceChoice | None,
    settings: tuple[str, ...],
) -> None:
    """Print the plan of a spec: the formula behind each number, the time and the cost of its trainings."""
    with common.exit_on_error():
        checked = _plan(spec, settings)
        with_memory = with_memory or import_model
        needs = api.estimate_memory(checked, import_models=import_model) if with_memory else None
        forecasts = api.forecast_steps(checked, region, spec_options.read_runs(runs, home, azure))
    if checked.report.diagnostics:
        common.show_findings(checked.report.diagnostics, checked.report.sources)
    if plot_file is not None:
        _draw(forecasts, plot_file)
    if as_json:
        document = api.plan_document(checked.planned.complete_plan, needs, forecasts)
        common.say(json.dumps(document, indent=2, ensure_ascii=False))
        return

    if wants_colour(sys.stdout):
        _show_plan(checked.planned.complete_plan)
    else:
        common.say(str(checked.planned.complete_plan), nl=False)
    if forecasts:
        common.say(f"\n{estimate_view.render_forecasts(forecasts)}", nl=False)
    if needs is not None:
        common.say(f"\n{_render_memory(checked, needs, imported=import_model)}", nl=False)


def _plan(spec: Path, settings: tuple[str, ...]) -> CheckedSpec:
    """The plan of a spec, or that which a function in Python makes."""
    if not load.is_reference(str(spec)):
        return checking.check_spec(spec, spec_options.override_spec(spec, settings))
    if settings:
        raise click.UsageError(f"`--set` is for specs: give the values in `{spec}`")
    return verbs.read_planned(str(spec))


def _draw(forecasts: dict[str, StepForecast], file: Path) -> None:
    trainings = [
        estimate_view.Training(name, forecast.time.case, forecast.time.calibration, saving=forecast.saving)
        for name, forecast in forecasts.items()
        if forecast.time.case is not None and forecast.time.estimate is not None
    ]
    if not trainings:
        reasons = "; ".join(f"`{name}`: {forecast.time.unknown}" for name, forecast in forecasts.items())
        common.refuse(f"there is nothing to draw: {reasons or 'no step trains'}")
    pictures.save_picture(estimate_view.make_picture(trainings), file)


def _list_parts(plan: Plan) -> Iterator[object]:
    """The table as objects that rich prints."""
    from rich.padding import Padding  # plain output needs no rich
    from rich.table import Table
    from rich.text import Text

    yield Text(plan.name, "bold")
    for block in list_blocks(plan):
        yield Text("")
        if not block.has_table:
            yield Text(block.line, "dim")
            continue
        yield Text.assemble((block.steps[0], "bold cyan"), f"  {block.instances}")
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(style="bold green", justify="right", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_column(style="dim", overflow="fold")
        for row in block.rows:
            table.add_row(*row)
        yield Padding(table, (0, 0, 0, 2))
        for line in block.sweep:
            yield Padding(Text(line), (0, 0, 0, 2))
        for advice in block.advice:
            yield Padding(Text(f"advice: {advice}", "yellow"), (0, 0, 0, 2))


def _show_plan(plan: Plan) -> None:
    """Print the table with rich."""
    from rich.console import Console

    console = Console(highlight=False)
    for part in _list_parts(plan):
        console.print(part)


_MEANING = {
    "parameters": "weights of this rank",
    "gradients": "one for each trained weight of this rank",
    "optimizer": "moments, and the fp32 copy of weights kept in half precision",
    "activations": "inputs that the backward pass needs, at the worst moment",
    "buffers": "working copies of weights, gradients being exchanged",
    "checkpoint": "the copy in the host's memory from which a checkpoint is written",
    "reserve": "libraries, and a GPU's context",
}


def _render_memory(checked: CheckedSpec, needs: Mapping[str, Need], *, imported: bool) -> str:
    """A block for each training step, or a line that says why its memory is unknown.

    ``imported`` says whether users' models were imported.
    """
    blocks = [_memory_block(name, need) for name, need in needs.items()]
    for name, step in checked.planned.step_plans.items():
        if step.training is not None and name not in needs:
            scale = checked.planned.spec.steps[name].scale
            if scale is not None and scale.workload is not None:
                reason = (
                    "`workload` says no more than the least that any software needs, which `check` compares"
                )
            else:
                reason = explain_unknown(checked.planned.job, name, imported=imported)
            blocks.append(f"{name}  memory unknown: {reason}\n")
    return "\n".join(blocks) if blocks else "no step trains\n"


def _memory_block(name: str, need: Need) -> str:
    """The memory of the rank that needs most."""
    breakdown = need.breakdown
    rows = [(share, getattr(breakdown, share), _MEANING[share]) for share in SHARES]
    rows.append(("total", breakdown.total, _describe_available(need)))
    lines = [f"{name}  memory of a process, `{need.network.name}` of {_describe_network(need)}"]
    for share, size, meaning in rows:
        shown = meaning if need.network.exact or share != "activations" else "unknown: not counted"
        percent = common.show_share(size / need.available, 1) if need.available else ""
        lines.append(f"  {share:<11}  {format_memory(size):>9}  {percent:>5}  {shown}".rstrip())
    return "\n".join(lines) + "\n"


def _describe_available(need: Need) -> str:
    if need.available is None:
        return f"the {need.device} of this VM size is unknown"
    where = "of a GPU" if need.device == "GPU" else "of the instance's memory for each process"
    return f"of {format_memory(need.available)} {where}"


def _describe_network(need: Need) -> str:
    trained = need.network.trained
    count = need.network.count if need.network.heads else trained  # what codes a table is not counted
    unit = "weights" if count >= 1_000_000 else plural(count, "weight").partition(" ")[2]
    part = f", {_show_count(trained)} of them trained" if trained < count else ""
    return f"{_show_count(count)} {unit}{part}, {need.setup.precision}, {need.setup.strategy}"


def _show_count(count: int) -> str:
    return f"{count / 1e6:.1f} million" if count >= 1_000_000 else str(count)
