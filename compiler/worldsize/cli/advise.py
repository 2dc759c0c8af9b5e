"""`worldsize advise`: the clusters on which a training is fastest and cheapest."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from worldsize.api.advice import (
    Advised,
    AdvisedStep,
    NotExpressibleError,
    WrongChoiceError,
    advise,
    edit_spec,
    write_spec,
)
from worldsize.base.wording import format_memory
from worldsize.checking.fixing import unified_diff
from worldsize.cli import advice_view, common, pictures, spec_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.documents.errors import SpecError
from worldsize.facts.prices import suggest_region
from worldsize.planning.advising.model import Shortage, Subject
from worldsize.planning.advising.options import rank_by_money, rank_by_time
from worldsize.planning.advising.search import make_cluster

EPILOG = """\b
Examples:
  worldsize advise SPEC                          the front of time and money
  worldsize advise SPEC --deadline 24h           the cheapest within a day
  worldsize advise SPEC --budget 500 --apply     the fastest for the money, written into the spec
  worldsize advise FILE --tokens 140e9           for the workload of an estimate file
  worldsize advise SPEC --plot front.svg         and a picture: time against cost
  worldsize advise SPEC --from JOB --azure       calibrated by a job that trained this

\b
The global batch stays as it is, and with it the learning rate. Each layout fits 90 % of a GPU's memory.
Prices are those of `worldsize catalogue`. Without --sizes, VM sizes that Azure sells to anyone, with
NVIDIA GPUs and x86-64 processors. Times and costs are expected values, and in brackets the bounds
within which four of five measurements should lie. Low priority includes what evictions cost.

\b
Exit status: 0 advised, 1 faults in the file or no cluster is within the limits, 2 usage, 3 an internal
error of worldsize.
"""
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(s|min|m|h|d)")
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _parse_duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """Seconds of ``24h``, ``90min``, ``2.5d``."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise click.BadParameter(f"`{text}` is not a time; write it like `24h`, `90min` or `3d`")
    return float(match[1]) * _UNITS[match[2]]


def _parse_amount(_context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """A positive number, also as ``140e9``."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise click.BadParameter(f"`{text}` is not a number above 0", param=parameter)
    return value


def _split(_context: click.Context, _parameter: click.Parameter, text: str | None) -> list[str] | None:
    """The names of a list with commas."""
    if text is None:
        return None
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise click.UsageError("a list of names is empty")
    return names


@click.command(epilog=EPILOG)
@click.argument("file", type=common.SpecPath("a spec or the file of a workload"))
@click.option("--deadline", metavar="TIME", callback=_parse_duration, help="Longest time, such as 24h or 3d.")
@click.option(
    "--budget", metavar="MONEY", callback=_parse_amount, help="Highest cost, in the prices' currency."
)
@click.option("--max-instances", type=click.IntRange(1, 1024), default=16, show_default=True)
@click.option("--sizes", metavar="SIZE,…", callback=_split, help="Only these VM sizes.")
@click.option(
    "--tiers", metavar="TIER,…", callback=_split, help="dedicated, low_priority, or both.  [default: both]"
)
@click.option("--samples", metavar="N", callback=_parse_amount, help="Samples to train with in all.")
@click.option("--tokens", metavar="N", callback=_parse_amount, help="Tokens to train with in all.")
@click.option("--region", metavar="NAME", help="The region of the prices, such as westeurope.")
@spec_options.from_option
@click.option("--keep-layout", is_flag=True, help="Keep strategy, degrees and recomputation as they are.")
@click.option("--step", metavar="NAME", help="Only this step of a spec.")
@click.option("--json", "as_json", is_flag=True, help="JSON, as schemas/advice.schema.json describes it.")
@pictures.plot_option
@click.option("--apply", is_flag=True, help="Write what the limits ask for into the spec, and show the diff.")
def command(
    file: Path,
    *,
    runs: tuple[str, ...],
    home: Path,
    azure: WorkspaceChoice | None,
    as_json: bool,
    plot_file: Path | None,
    apply: bool,
    **options: Any,
) -> None:
    """Find the clusters on which a training is fastest and cheapest."""
    if options["samples"] is not None and options["tokens"] is not None:
        raise click.UsageError("`--samples` and `--tokens` exclude each other")
    if apply and options["deadline"] is None and options["budget"] is None:
        raise click.UsageError("`--apply` needs `--deadline` or `--budget`, which say what is meant")

    with _exit_on_refusal():
        advised = advise(file, runs=spec_options.read_runs(runs, home, azure), **options)
    if apply and advised.checked is None:
        common.refuse(f"`{file}` is not a spec, so that there is nothing to apply", "name the spec")
    if plot_file is not None:
        _draw(advised, plot_file)
    if as_json:
        steps = [advice_view.describe_advice(step) for step in advised.steps]
        common.say(json.dumps({"format": advice_view.FORMAT, "steps": steps}, indent=2))
    else:
        common.say("\n\n".join(advice_view.render_advice(step) for step in advised.steps))
    for step in advised.steps:
        if not step.advice.front:
            common.refuse(*_explain_nothing(step, advised))
    if apply:
        with _exit_on_refusal():
            _apply(advised)


@contextlib.contextmanager
def _exit_on_refusal() -> Iterator[None]:
    """Turn what is wrong with the file or the question into a message and an exit status."""
    try:
        with common.exit_on_error():
            yield
    except WrongChoiceError as error:
        raise click.UsageError(str(error)) from None


def _draw(advised: Advised, file: Path) -> None:
    """Draw every training that some cluster is within the limits of; of the others there is an error."""
    drawn = [step for step in advised.steps if step.advice.front]
    if drawn:
        pictures.save_picture(advice_view.make_picture(drawn, advised.limits), file)


def _explain_nothing(step: AdvisedStep, advised: Advised) -> tuple[str, str]:
    """Why no cluster is within the limits, and what to do."""
    subject, search, prices = step.subject, step.advice.found, advised.prices
    if search.options:
        fastest, cheapest = min(search.options, key=rank_by_time), min(search.options, key=rank_by_money)
        beside = f"the cheapest is {advice_view.summarise(cheapest)}"
        return (
            f"no cluster trains `{subject.name}` within the limits",
            f"the fastest is {advice_view.summarise(fastest)}; {beside}",
        )
    if search.unpriced:
        near = suggest_region(prices.region, prices.refreshed)
        is_other = near not in (None, prices.region)
        other = f"did you mean `{near}`?" if is_other else "name another `--region`"
        return (
            f"no price in {prices.region} is known of the sizes on which `{subject.name}` fits",
            f"{other}; `worldsize catalogue --prices` reads today's prices",
        )
    if search.shortage is not None:
        return _describe_shortage(subject, search.shortage, advised)
    if not search.considered and not search.precise:
        precision = subject.case.training.precision
        return f"no GPU of these sizes computes in {precision}", "name other `--sizes`"
    return (
        f"no cluster of these sizes keeps the global batch of {subject.case.global_batch}",
        f"choose a global batch that more numbers of GPUs divide, or {_name_limit(subject)}",
    )


def _name_limit(subject: Subject) -> str:
    """What keeps a cluster from more instances."""
    if subject.max_instances is None:
        return "raise `--max-instances`"
    return f"raise `max_instances: {subject.max_instances}` of its compute profile"


def _describe_shortage(subject: Subject, shortage: Shortage, advised: Advised) -> tuple[str, str]:
    """The smallest need beside the largest GPU."""
    made = [cluster for size in advised.sizes if (cluster := make_cluster(size, 1)) is not None]
    largest = max(made, key=lambda cluster: cluster.gpu.memory_bytes)
    where = f"{shortage.cluster.instance_count} × {shortage.cluster.instance_type}"
    layout = advice_view.describe_layout(shortage.training)
    message = (
        f"`{subject.name}` fits no GPU: it needs at least {format_memory(int(shortage.needed_bytes))}"
        f" ({layout}, on {where}), and the largest, {largest.gpu.name} of `{largest.instance_type}`, has"
        f" {format_memory(int(largest.gpu.memory_bytes))}"
    )
    return message, f"{_name_limit(subject)} to shard the model over more GPUs, or make it smaller"


def _apply(advised: Advised) -> None:
    """Write what the limits ask for into the spec, and show the diff."""
    try:
        edited = edit_spec(advised)
        if edited.warnings:
            common.show_findings(edited.warnings, edited.sources)
        if edited.change.before == edited.change.after:
            common.say("\nthe spec says this already")
            return
        common.say("\n" + unified_diff(edited.change), nl=False)
        write_spec(edited)
    except SpecError as error:
        common.say("error: with the option the spec has errors; it is unchanged", err=True)
        common.refuse_spec(error)
    except NotExpressibleError as error:
        wanted = ", ".join(f"`{setting.shown()}`" for setting in error.settings)
        if not wanted:
            option, layout = error.option, advice_view.describe_layout(error.option.training)
            wanted = f"{advice_view.show_instances(option)}, tier {option.tier}, {layout}"
        common.refuse(str(error), f"the spec is unchanged; write by hand: {wanted}")
