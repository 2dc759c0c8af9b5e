"""Checks the micro-batches of a pipeline: how long its stages idle, and how to shorten that."""

from __future__ import annotations

from worldsize.base.wording import round_noise
from worldsize.planning import degrees, options
from worldsize.planning.batches import Batches
from worldsize.planning.model import Interface, Notes, Topology
from worldsize.spec.model import Scale, Step

_OTHER_DEGREE = (
    "model-not-splittable",
    "model-parallelism-unsupported",
    "pipeline-degree-does-not-divide-layers",
    "strategy-contradicts-degrees",
)


def check_pipeline_bubble(
    step: Step,
    scale: Scale,
    topology: Topology,
    interface: Interface | None,
    batches: Batches,
    *,
    notes: Notes,
) -> None:
    """Derive the pipeline's bubble; warn where there are fewer micro-batches than stages.

    The micro-batches of gradient accumulation are those that flow through the pipeline.
    """
    stages, micro = topology.pipeline_parallel_size, batches.accumulation
    if stages == 1:
        return
    share = round_noise(round(degrees.bubble_share(stages, micro), 4))
    formula = f"({stages} − 1) / ({micro} + {stages} − 1)"
    notes.derive("pipeline_bubble", share, formula, "idle share of a step, Huang et al. 2019")
    if any(problem.slug in _OTHER_DEGREE for problem in notes.problems):
        return  # the degree has to change first
    if micro < stages and _starves(step, interface, stages, batches, notes):
        return
    if share < degrees.TOLERABLE_BUBBLE:
        return
    remedy = _remedy(stages, batches)
    if micro >= stages:
        notes.advice.append(f"the pipeline idles {_percent(stages, micro)} of a step; {remedy}")
        return
    pinned = scale.gradient_accumulation_steps
    span = pinned.span if pinned is not None else options.degree_span(step, "pipeline")
    message = (
        f"`gradient_accumulation_steps` {micro} is below the {stages} pipeline stages:"
        f" they idle {_percent(stages, micro)} of a step, ({stages} − 1) / ({micro} + {stages} − 1)"
    )
    notes.report("pipeline-bubble", span, message, remedy)


def _starves(step: Step, interface: Interface | None, stages: int, batches: Batches, notes: Notes) -> bool:
    """Whether the schedule needs more micro-batches, as torch's ``Schedule1F1B`` does; reported if so."""
    if options.read_option(step, interface, "pipeline_schedule") != "1f1b":
        return False
    given = step.with_.get("pipeline_schedule")
    message = (
        f"schedule `1f1b` needs a micro-batch for each of {stages} pipeline stages,"
        f" but `gradient_accumulation_steps` is {batches.accumulation}"
    )
    help_ = f"{_remedy(stages, batches)}, or `pipeline_schedule: gpipe`"
    span = given.span if given is not None else options.degree_span(step, "pipeline")
    notes.report("strategy-option-refused", span, message, help_)
    return True


def _remedy(stages: int, batches: Batches) -> str:
    """More micro-batches, of the same global batch where it can be cut that small."""
    wanted = degrees.count_micro_batches(stages)
    share = batches.per_device * batches.accumulation
    micro = degrees.divisor_near(share, wanted, 1) or wanted
    written = f"write `gradient_accumulation_steps: {micro}`"
    if micro <= share and share % micro == 0:
        written += f" and `batch_size_per_device: {share // micro}`, the same global batch,"
    return f"{written} to idle {_percent(stages, micro)}"


def _percent(stages: int, micro: int) -> str:
    return f"{degrees.bubble_share(stages, micro):.0%}".replace("%", " %")
