"""Models too deep to be worked out layer by layer: what their weights take at least."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.model import Job, Step
from worldsize.base.problem import Problem
from worldsize.emit import memory_bound, samples
from worldsize.facts import vm_sizes
from worldsize.planning.memory import sizes
from worldsize.planning.memory.verdict import gib
from worldsize.planning.model import Plan, Topology
from worldsize.planning.numbers import plural
from worldsize.spec.model import Spec

MOST_LAYERS = 10_000  # worked out one by one, in a second; the deepest transformers have a tenth of it


def check(spec: Spec, job: Job, plan: Plan) -> Iterator[Problem]:
    """Report deeper models whose weights alone, cut over all ranks, take more than a process has."""
    for name, step in job.steps.items():
        shape = _shape(step)
        given = spec.steps[name].with_.get("gpt_layers")
        if name not in plan.steps or shape is None or given is None:
            continue
        topology = plan.steps[name].topology
        room = _room(topology)
        layers, width = shape
        least = 4 * layers * 12 * width**2 // topology.world_size  # fp32: 12 squares of the width a layer
        if room is not None and least > room:
            message = (
                f"`gpt` of {layers} layers needs {gib(least)} a process for its weights alone, cut over"
                f" {plural(topology.world_size, 'process')}, but a process on `{topology.instance_type}`"
                f" has {gib(room)}"
            )
            yield Problem("memory-exceeded", given.span, message, "write fewer `gpt_layers`")


def _shape(step: Step) -> tuple[int, int] | None:
    """Layers and width of a ``gpt`` with too many layers; None for any other step."""
    given = samples.values(step, ("model", "gpt_layers", "gpt_width"))
    layers, width = given["gpt_layers"], given["gpt_width"]
    if not memory_bound.is_trainer(step) or given["model"] != "gpt":
        return None
    if not (literals.accepts("integer", layers) and literals.accepts("integer", width)):
        return None
    return (int(layers), int(width)) if int(layers) > MOST_LAYERS else None


def _room(topology: Topology) -> int | None:
    size = vm_sizes.lookup(topology.instance_type) if topology.instance_type else None
    return sizes.available(size, topology.process_count_per_instance) if size is not None else None
