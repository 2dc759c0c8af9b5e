"""From a spec to its graph and plan: everything that needs no output folder."""

from __future__ import annotations

from msgspec import Struct

from worldsize.azureml.files import Files
from worldsize.base.problem import Problem
from worldsize.emit import gpu_builds, lookup, memory_bound, rows
from worldsize.emit.resolve import Resolved, resolve, wired
from worldsize.planning.model import Plan
from worldsize.spec.model import Spec


class Built(Struct, frozen=True):
    """A resolved spec; ``plan`` is None where planning failed."""

    spec: Spec
    plan: Plan | None
    resolved: Resolved


def build(spec: Spec, files: Files | None = None) -> tuple[Built, list[Problem]]:
    """Find the components, derive the plan, resolve the graph.

    Args:
        spec: The spec.
        files: What has been read before, so that each component file is read once.

    Returns:
        The result, good for emitting only where there are no errors, and every problem met.
    """
    from worldsize.planning import derive  # noqa: PLC0415 - the catalogue of VM sizes is read by it

    files = files or Files()
    components, problems = lookup.find(spec, files)
    scaled = any(step.scale is not None for step in spec.steps.values())
    counted = rows.count(wired(spec, components, files=files)) if scaled else {}  # what trains on how much
    plan, faults = derive(spec, lookup.interfaces(components), counted)
    resolved, more = resolve(spec, components, plan, files)
    unfit = gpu_builds.check(spec, resolved.job, plan, files) if plan is not None else ()
    return Built(spec, plan, resolved), [*problems, *faults, *more, *unfit, *_memory(spec, plan, resolved)]


def _memory(spec: Spec, plan: Plan | None, resolved: Resolved) -> list[Problem]:
    """Steps that do not fit their VM size; the formulas are loaded only for steps of some size."""
    if plan is None:
        return []
    steps = [(step, plan.steps[name]) for name, step in resolved.job.steps.items() if name in plan.steps]
    if not any(memory_bound.may_matter(resolved.job, step, planned) for step, planned in steps):
        return []
    from worldsize.emit import memory  # noqa: PLC0415 - few specs train something that large

    return list(memory.check(spec, resolved.job, plan))
