"""Training steps that need more memory than a process has, or nearly all of it."""

from __future__ import annotations

from collections.abc import Iterable

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context


def check_job(context: Context, job: Job) -> Iterable[Problem]:
    """Estimate the memory of the steps that have a plan: only a spec says what the estimate needs."""
    resolved = context.resolved.get(job)
    plan = resolved.plan if resolved is not None else None
    if plan is None:
        return ()
    from worldsize.planning.memory import workload  # only steps that train need it

    planned = [(step, plan.steps[name]) for name, step in job.steps.items() if name in plan.steps]
    if not any(workload.may_matter(job, step, plan) for step, plan in planned):
        return ()
    from worldsize.planning.memory import step_memory  # few specs train a model of such a size

    sizes = {step: cluster.size_span for step, cluster in context.placed.get(job, {}).items()}
    return step_memory.check_memory(job, plan, sizes, context.vm_sizes)
