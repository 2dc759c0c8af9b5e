"""Steps read each other's outputs in a cycle, or a step reads its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from worldsize.azureml import graph
from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.rules.graph._common import Wire, find_wires

_SHOWN = 12  # steps that a message can hold


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    reads: dict[str, dict[str, Wire]] = {}
    for wire in find_wires(job):
        if wire.expression.step is not None and wire.expression.side == "outputs":
            reads.setdefault(wire.step.name, {}).setdefault(wire.expression.step, wire)
    steps = graph.find_cycle(reads, lambda step: reads.get(step, ()))
    if steps is None:
        return
    first, last = steps[0], steps[-1]
    closing = reads[first][last]
    span = closing.part(2)
    if len(steps) == 1:
        message = f"input `{closing.name}` of step `{first}` is bound to the step's own output"
        yield Finding(span, message, "bind it to an earlier step")
        return
    shown = steps if len(steps) <= _SHOWN else [*steps[: _SHOWN - 1], "…"]
    message = "steps wait for each other: " + " → ".join(f"`{step}`" for step in [*shown, first])
    if len(message) > 200:
        message = f"{len(steps)} steps wait for each other, from `{first}` to `{last}` and back"[:200]
    related = tuple(
        Related(reads[step][source].part(2), f"`{step}` reads from `{source}`")
        for source, step in pairwise(steps)
    )
    yield Finding(span, message, "remove one of these bindings", related=related)
