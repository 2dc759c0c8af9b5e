"""Steps depend on each other in a cycle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from worldsize.azureml import graph
from worldsize.azureml.model import Binding, Field, Job
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Related
from worldsize.base.span import NOWHERE, Span
from worldsize.rules.graph._common import text_node

_SHOWN = 12  # steps that a message can hold
_Reads = dict[str, dict[str, tuple[str, Field[Any]]]]  # step -> the steps it reads from, with input and field


def check_job(context: Tree, job: Job) -> Iterator[Finding]:
    reads: _Reads = {}
    for step in job.steps.values() if job.type == "pipeline" else ():
        for name, field in step.inputs.items():
            source = field.value.expression if isinstance(field.value, Binding) else None
            if source is not None and source.step is not None and source.side == "outputs":
                reads.setdefault(step.name, {}).setdefault(source.step, (name, field))
    steps = graph.find_cycle(reads, lambda step: reads.get(step, ()))
    if steps is not None:
        yield _describe(_end_with_written(steps, reads), reads)


def _end_with_written(steps: list[str], reads: _Reads) -> list[str]:
    """The cycle, rotated so that the binding that closes it was written, not wired by its name."""
    for turn in range(len(steps)):
        if _place(reads, steps[turn - 1], steps[turn]) is not None:
            return [*steps[turn:], *steps[:turn]]
    return steps


def _place(reads: _Reads, source: str, step: str) -> Span | None:
    """Where a binding names its source; None for a binding that was not written."""
    field = reads[step][source][1]
    node = text_node(field.node)
    return None if node is None else node.subspan(*field.value.expression.part_range(2))


def _describe(steps: list[str], reads: _Reads) -> Finding:
    first, last = steps[0], steps[-1]
    span = _place(reads, last, first) or NOWHERE
    if len(steps) == 1:
        message = f"input `{reads[first][last][0]}` of step `{first}` is bound to the step's own output"
        return Finding(span, message, "bind it to an earlier step")
    shown = steps if len(steps) <= _SHOWN else [*steps[: _SHOWN - 1], "…"]
    message = "steps wait for each other: " + " → ".join(f"`{step}`" for step in [*shown, first])
    if len(message) > 200:
        message = f"{len(steps)} steps wait for each other, from `{first}` to `{last}` and back"[:200]
    related = tuple(
        Related(place, f"`{step}` reads from `{source}`")
        for source, step in pairwise(steps)
        if (place := _place(reads, source, step)) is not None
    )
    return Finding(span, message, "remove one of these bindings", related=related)
