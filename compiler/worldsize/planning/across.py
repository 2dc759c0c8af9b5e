"""Tensor parallelism that leaves an instance: what its links give a GPU inside and between."""

from __future__ import annotations

from worldsize.base.problem import Related
from worldsize.facts import links, vm_sizes
from worldsize.planning import degrees, options
from worldsize.planning.degrees import Degrees
from worldsize.planning.model import Topology
from worldsize.planning.notes import Notes
from worldsize.planning.numbers import plural
from worldsize.spec.model import Step


def crosses(tensor: int, processes: int, instances: int) -> bool:
    """Whether neighbouring ranks that share a layer lie on two instances.

    Args:
        tensor: ranks that share each layer, consecutive ones.
        processes: ranks of one instance.
        instances: instances.
    """
    return tensor > 1 and instances > 1 and processes % tensor != 0


def joined(size: vm_sizes.VmSize | None) -> bool:
    """Whether the fast link inside an instance goes on to its neighbours."""
    return size is not None and links.spans_instances(size)


def message(tensor: int, processes: int, size: vm_sizes.VmSize | None) -> str:
    """What is wrong, with what a GPU gets inside an instance and between two where that is known."""
    inside, between = (
        (links.inside(size), links.between(size)) if size is not None and size.devices else (None, None)
    )
    speeds = [f"{inside.shown()} inside"] if inside is not None else []
    speeds += [f"{between.shown()} between them"] if between is not None else []
    said = f"the tensor degree {tensor} spans instances of {plural(processes, 'process')}"
    return (
        f"{said}: a GPU has {', '.join(speeds)}" if speeds else f"{said}: every layer waits for the network"
    )


def remedy(tensor: int, processes: int, room: int) -> str:
    """What to write.

    Args:
        tensor: the degree as it is.
        processes: ranks of one instance.
        room: ranks that tensor and data parallelism share.
    """
    fits = degrees.common(tensor, processes, room)
    keep = f"write a tensor degree of {fits}" if fits > 1 else "leave the tensor degree at 1"
    return f"{keep}, which stays inside an instance; data or pipeline parallelism may span them"


def check(step: Step, found: Degrees, topology: Topology, notes: Notes) -> None:
    """Warn where ranks that exchange activations in every layer do so over the network.

    Source: Narayanan et al. 2021 (arXiv:2104.04473), section 3.2: tensor parallelism inside a server.
    """
    processes, instances = topology.process_count_per_instance, topology.instance_count
    size = vm_sizes.lookup(topology.instance_type) if topology.instance_type else None
    if not crosses(found.tensor, processes, instances) or joined(size):
        return
    said = message(found.tensor, processes, size)
    help_ = remedy(found.tensor, processes, topology.world_size // found.pipeline)
    related = (Related(step.instance_count.span, "instances"),) if step.instance_count else ()
    notes.report("tensor-parallel-across-instances", options.place(step, "tensor"), said, help_, *related)
