"""Training steps that need more memory than a process has, or nearly all of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Problem
from worldsize.planning.model import Plan

if TYPE_CHECKING:
    from worldsize.azureml.model import Step
    from worldsize.planning.estimates.model import Training
    from worldsize.resolving.planned import Planned


def check_planned(context: Tree, planned: Planned) -> Iterator[Problem]:
    """Estimate the memory of the steps that have a plan: only a spec says what the estimate needs."""
    job, plan = planned.job, planned.plan
    if plan is None:
        return
    described = {name for name, step in planned.spec.steps.items() if step.scale and step.scale.workload}
    yield from _check_described(planned, plan, described)
    from worldsize.planning.memory import workload  # only steps that train need it

    plan = Plan(plan.name, {name: step for name, step in plan.steps.items() if name not in described})
    steps = [(step, plan.steps[name]) for name, step in job.steps.items() if name in plan.steps]
    if any(workload.may_matter(job, step, step_plan) for step, step_plan in steps):
        from worldsize.planning.memory import step_memory  # few specs train a model of such a size

        sizes = {step: cluster.size_span for step, cluster in (job.clusters or {}).items()}
        yield from step_memory.check_memory(job, plan, sizes, context.vm_sizes, planned.read_config)


def _check_described(planned: Planned, plan: Plan, described: Collection[str]) -> Iterator[Problem]:
    """Report the models of a `workload:` that fit no rank, as `worldsize estimate` does."""
    for name in described:
        scale, step = planned.spec.steps[name].scale, plan.steps.get(name)
        if scale is None or scale.workload is None or step is None or step.training is None:
            continue
        from worldsize.planning.estimates import memory  # few specs describe a model
        from worldsize.resolving.step_estimates import find_case

        case = find_case(planned, name, step)
        if not isinstance(case, str) and not memory.fits(case):
            changes = [changed.training for _, changed in memory.find_fitting(case)]
            texts = [_name_changes(planned.job.steps[name], case.training, change) for change in changes]
            fitting = ", or ".join(text for text in texts if text is not None)
            help_ = f"what fits: {fitting}" if fitting else "divide the model over more or larger GPUs"
            at = scale.batch_size_per_device
            span = scale.workload.span if at is None else at.span
            yield Problem("memory-exceeded", span, memory.describe_shortage(case), help_)


def _name_changes(step: Step, present: Training, changed: Training) -> str | None:
    """What to write in a spec so that a step trains with less memory; None where its component cannot."""
    inputs = step.component.inputs if step.component is not None else {}
    texts: list[str] = []
    if changed.strategy != present.strategy:
        port = inputs.get("strategy")
        if port is not None and (port.enum is None or changed.strategy not in port.enum.value):
            return None
        texts.append("`strategy: fsdp`" if port is not None else "FSDP in the script")
    if changed.recomputation != present.recomputation:
        takes = "activation_checkpointing" in inputs
        texts.append(
            "`activation_checkpointing: blocks`" if takes else "activation checkpointing in the script"
        )
    if changed.micro_batch != present.micro_batch:
        texts.append(f"`batch_size_per_device: {changed.micro_batch}`")
        times, left = divmod(present.micro_batch, changed.micro_batch)
        texts += [] if left else [f"`gradient_accumulation_steps: {present.accumulation * times}`"]
    return " and ".join(texts) or None
