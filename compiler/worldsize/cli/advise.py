"""`worldsize advise`: the clusters on which a training is fastest and cheapest."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from worldsize import api
from worldsize.base import untrusted
from worldsize.base.wording import format_memory
from worldsize.cli import advice_document, advice_plot, advice_table, common, measured_runs, pictures
from worldsize.cli.advice_question import Request, describe_present, make_question, read_asked
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.documents import yaml
from worldsize.documents.errors import SpecError
from worldsize.facts.prices import suggest_region
from worldsize.fixing import unified_diff
from worldsize.fixing.apply import Change, Setting, SettingError, replace_content, set_values
from worldsize.planning.advising.clusters import make_cluster
from worldsize.planning.advising.front import rank_by_money, rank_by_time
from worldsize.planning.advising.model import Advice, Limits, Option, Subject
from worldsize.planning.advising.search import advise, try_other_batches
from worldsize.planning.model import Plan
from worldsize.resolving.advice_settings import explain_refusal, list_settings
from worldsize.resolving.measured_case import UnusableRunError

if TYPE_CHECKING:
    from worldsize.cli.advice_question import Asked
    from worldsize.facts.vm_sizes import VmSize
    from worldsize.planning.advising.model import Advice, OtherBatch, Shortage, Subject
    from worldsize.resolving.measured_case import MeasuredRun

    Result = tuple[Subject, float, Advice, list[OtherBatch]]
    from worldsize.checking import CheckedSpec

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


@click.command(epilog=EPILOG)
@click.argument("file", type=common.SpecPath("a spec or the file of a workload"))
@click.option("--deadline", metavar="TIME", callback=_parse_duration, help="Longest time, such as 24h or 3d.")
@click.option(
    "--budget", metavar="MONEY", callback=_parse_amount, help="Highest cost, in the prices' currency."
)
@click.option("--max-instances", type=click.IntRange(1, 1024), default=16, show_default=True)
@click.option("--sizes", metavar="SIZE,…", help="Only these VM sizes.")
@click.option("--tiers", metavar="TIER,…", help="dedicated, low_priority, or both.  [default: both]")
@click.option("--samples", metavar="N", callback=_parse_amount, help="Samples to train with in all.")
@click.option("--tokens", metavar="N", callback=_parse_amount, help="Tokens to train with in all.")
@click.option("--region", metavar="NAME", help="The region of the prices, such as westeurope.")
@measured_runs.from_option
@click.option("--keep-layout", is_flag=True, help="Keep strategy, degrees and recomputation as they are.")
@click.option("--step", metavar="NAME", help="Only this step of a spec.")
@click.option("--json", "as_json", is_flag=True, help="JSON, as schemas/advice.schema.json describes it.")
@pictures.plot_option
@click.option("--apply", is_flag=True, help="Write what the limits ask for into the spec, and show the diff.")
def command(
    file: Path,
    *,
    deadline: float | None,
    budget: float | None,
    max_instances: int,
    sizes: str | None,
    tiers: str | None,
    samples: float | None,
    tokens: float | None,
    region: str | None,
    step: str | None,
    runs: tuple[str, ...],
    home: Path,
    azure: WorkspaceChoice | None,
    keep_layout: bool,
    as_json: bool,
    plot_file: Path | None,
    apply: bool,
) -> None:
    """Find the clusters on which a training is fastest and cheapest."""
    if samples is not None and tokens is not None:
        raise click.UsageError("`--samples` and `--tokens` exclude each other")
    if apply and deadline is None and budget is None:
        raise click.UsageError("`--apply` needs `--deadline` or `--budget`, which say what is meant")

    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    request = Request(sizes, tiers, max_instances, samples, tokens, region, keep_layout)
    try:
        asked = read_asked(file, request, step)
    except SpecError as error:
        common.refuse_spec(error)
    if apply and asked.read.checked is None:
        common.refuse(f"`{file}` is not a spec, so that there is nothing to apply", "name the spec")
    limits = Limits(deadline, budget)
    try:
        measured = measured_runs.read_runs(runs, home, azure)
        results = _advise(asked, request, limits, measured)
    except UnusableRunError as error:
        common.refuse(str(error))
    if plot_file is not None:
        _draw(results, limits, plot_file)
    if as_json:
        steps = [advice_document.describe_advice(*result) for result in results]
        common.say(json.dumps({"format": advice_document.FORMAT, "steps": steps}, indent=2))
    else:
        common.say("\n\n".join(advice_table.render_advice(*result) for result in results))
    for subject, _, advice, _ in results:
        _refuse_nothing(subject, advice, asked)
    if apply:
        apply_advice(file, asked, [(subject, advice) for subject, _, advice, _ in results])


def _advise(asked: Asked, request: Request, limits: Limits, runs: Sequence[MeasuredRun]) -> list[Result]:
    """The advice for each training of the file; calibrated by the runs that trained it."""
    results = []
    for subject in asked.subjects:
        question = make_question(asked, subject, request, runs)
        advice = advise(question, limits, describe_present(question, subject))
        others = try_other_batches(question, subject.rate, limits) if advice.front else []
        results.append((subject, question.samples, advice, others))
    return results


def _draw(results: list[Result], limits: Limits, file: Path) -> None:
    """Draw every training that some cluster is within the limits of; of the others there is an error."""
    advised = [
        advice_plot.Advised(subject.name, advice, limits) for subject, _, advice, _ in results if advice.front
    ]
    if advised:
        pictures.save_picture(advice_plot.make_picture(advised), file)


def _refuse_nothing(subject: Subject, advice: Advice, asked: Asked) -> None:
    """Exit if no cluster is within the limits, with the reason."""
    if advice.front:
        return
    found = advice.found
    if found.options:
        fastest, cheapest = min(found.options, key=rank_by_time), min(found.options, key=rank_by_money)
        common.refuse(
            f"no cluster trains `{subject.name}` within the limits",
            f"the fastest is {advice_table.summarise(fastest)};"
            f" the cheapest is {advice_table.summarise(cheapest)}",
        )
    if found.unpriced:
        near = suggest_region(asked.prices.region, asked.prices.refreshed)
        other = (
            f"did you mean `{near}`?"
            if near not in (None, asked.prices.region)
            else "name another `--region`"
        )
        common.refuse(
            f"no price in {asked.prices.region} is known of the sizes on which `{subject.name}` fits",
            f"{other}; `worldsize catalogue --prices` reads today's prices",
        )
    if found.shortage is not None:
        common.refuse(*_describe_shortage(subject.name, found.shortage, asked.sizes))
    if not found.considered and not found.precise:
        precision = subject.case.training.precision
        common.refuse(f"no GPU of these sizes computes in {precision}", "name other `--sizes`")
    common.refuse(
        f"no cluster of these sizes keeps the global batch of {subject.case.global_batch}",
        "choose a global batch that more numbers of GPUs divide, or raise `--max-instances`",
    )


def _describe_shortage(name: str, shortage: Shortage, sizes: Sequence[VmSize]) -> tuple[str, str]:
    """The smallest need beside the largest GPU."""
    made = [cluster for size in sizes if (cluster := make_cluster(size, 1)) is not None]
    largest = max(made, key=lambda cluster: cluster.gpu.memory_bytes)
    where = f"{shortage.cluster.instance_count} × {shortage.cluster.instance_type}"
    layout = advice_table.describe_layout(shortage.training)
    message = (
        f"`{name}` fits no GPU: it needs at least {format_memory(int(shortage.needed_bytes))}"
        f" ({layout}, on {where}), and the largest, {largest.gpu.name} of `{largest.instance_type}`, has"
        f" {format_memory(int(largest.gpu.memory_bytes))}"
    )
    return message, "raise `--max-instances` to shard the model over more GPUs, or make it smaller"


_MARK = "\ufeff".encode()


def apply_advice(file: Path, asked: Asked, advised: Sequence[tuple[Subject, Advice]]) -> None:
    """Put the chosen options into the spec that was asked about.

    Exits, with the file as it was, if an option cannot be expressed in it.
    """
    checked = asked.read.checked
    assert checked is not None
    before = untrusted.read_bytes(file)
    document, chosen = yaml.load(file, before), []
    for subject, advice in advised:
        if advice.chosen is not None:
            chosen.append((subject, advice.chosen))
            document = _edit(document, checked, subject, advice.chosen)
    after = _plan(document, chosen, checked)
    text = document.text
    if b"\r\n" in before:
        text = "\r\n".join(text.replace("\r\n", "\n").split("\n"))
    data = (_MARK if before.startswith(_MARK) else b"") + text.encode()
    if after.report.diagnostics:
        common.show_findings(after.report.diagnostics, after.report.sources)
    if data == before:
        common.say("\nthe spec says this already")
        return
    common.say("\n" + unified_diff(Change(str(file), before, data)), nl=False)
    reason = replace_content(file, before, data)
    if reason is not None:
        common.refuse(
            f"`{file}` cannot be written: {reason}", "check the permissions of the file and its folder"
        )


def _edit(document: yaml.Document, checked: CheckedSpec, subject: Subject, option: Option) -> yaml.Document:
    spec = checked.planned.spec
    reason = explain_refusal(spec, subject, option)
    if reason is not None:
        _refuse(reason, subject, option, [])
    settings = [Setting(*each) for each in list_settings(spec, subject, option)]
    try:
        return yaml.load(document.path, set_values(document, settings))
    except SettingError as error:
        _refuse(str(error), subject, option, settings)


def _plan(document: yaml.Document, chosen: list[tuple[Subject, Option]], before: CheckedSpec) -> CheckedSpec:
    """The plan of the edited spec, which must be what was advised, and leave other steps as they were."""
    try:
        checked = api.plan_spec(document.path, document)
    except SpecError as error:
        common.say("error: with the option the spec has errors; it is unchanged", err=True)
        common.refuse_spec(error)
    for subject, option in chosen:
        if not is_as_advised(checked.plan, subject, option):
            _refuse("its plan is another one than was advised", subject, option, [])
    advised = {subject.name for subject, _ in chosen}
    for name, step in before.plan.steps.items():
        if name not in advised and checked.plan.steps[name].topology != step.topology:
            common.refuse(f"step `{name}` would change too; the spec is unchanged", "separate the two steps")
    return checked


def is_as_advised(plan: Plan, subject: Subject, option: Option) -> bool:
    """Whether a plan has the cluster, the degrees and the batches of an option."""
    step, training, cluster = plan.steps[subject.name], option.training, option.cluster
    topology, batches = step.topology, step.training
    if batches is None:
        return False
    have = (
        (topology.instance_type, topology.instance_count, topology.world_size),
        (topology.tensor_parallel_size, topology.pipeline_parallel_size),
        (batches.batch_size_per_device, batches.gradient_accumulation_steps, batches.global_batch_size),
    )
    return have == (
        (option.instance_type, cluster.instance_count, cluster.world_size),
        (training.tensor_parallel, training.pipeline_parallel),
        (training.micro_batch, training.accumulation, subject.case.global_batch),
    )


def _refuse(reason: str, subject: Subject, option: Option, settings: Sequence[Setting]) -> NoReturn:
    """Exit, and say what to write by hand."""
    wanted = ", ".join(f"`{setting.shown()}`" for setting in settings)
    if not wanted:
        layout = advice_table.describe_layout(option.training)
        wanted = f"{advice_table.show_instances(option)}, tier {option.tier}, {layout}"
    message = f"the option cannot be written into step `{subject.name}`: {reason}"
    common.refuse(message, f"the spec is unchanged; write by hand: {wanted}")
