"""Training steps that need more memory than a process has, or nearly all of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from worldsize.base.problem import Problem
from worldsize.rules.context import Context

if TYPE_CHECKING:
    from worldsize.resolving.planned import Planned


def check_planned(context: Context, planned: Planned) -> Iterable[Problem]:
    """Estimate the memory of the steps that have a plan: only a spec says what the estimate needs."""
    job, plan = planned.job, planned.plan
    if plan is None:
        return ()
    from worldsize.planning.memory import workload  # only steps that train need it

    steps = [(step, plan.steps[name]) for name, step in job.steps.items() if name in plan.steps]
    if not any(workload.may_matter(job, step, step_plan) for step, step_plan in steps):
        return ()
    from worldsize.planning.memory import step_memory  # few specs train a model of such a size

    sizes = {step: cluster.size_span for step, cluster in (job.clusters or {}).items()}
    return step_memory.check_memory(job, plan, sizes, context.vm_sizes)
