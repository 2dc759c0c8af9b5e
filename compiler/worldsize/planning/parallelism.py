"""Plans the mesh of a step: its world size as data × tensor × pipeline degrees."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.problem import Related
from worldsize.base.wording import plural
from worldsize.planning import degrees, options, splits
from worldsize.planning.degrees import Degrees
from worldsize.planning.model import Interface, Notes, Topology
from worldsize.spec.model import Step


class Degree(Struct, frozen=True):
    """One degree, with its formula and source for the table."""

    value: int
    formula: str
    source: str


def plan_mesh(step: Step, topology: Topology, interface: Interface | None, notes: Notes) -> Topology | None:
    """Add the degrees to a topology; None if their product is not the world size.

    Rows of the table, advice and problems are added to ``notes``.
    """
    tensor = _tensor(step, topology, interface, notes)
    pipeline = _pipeline(step, topology, interface, tensor.value, notes)
    mesh = _mesh(step, tensor.value, pipeline.value, topology, notes)
    if mesh is None:
        return None
    planned = splits.check_splits(step, interface, mesh, topology, notes)
    if step.parallelism is not None or mesh.tensor * mesh.pipeline > 1:
        _explain(step, mesh, tensor, pipeline, notes)
    if planned is not None:
        named = f"pipeline {mesh.pipeline}" if mesh.pipeline > 1 else f"tensor {mesh.tensor}"
        notes.derive("strategy", planned, "", f"{named} needs it")
    return replace(
        topology,
        tensor_parallel_size=mesh.tensor,
        pipeline_parallel_size=mesh.pipeline,
        strategy=planned,
    )


def _tensor(step: Step, topology: Topology, interface: Interface | None, notes: Notes) -> Degree:
    """The tensor degree: pinned, or by its strategy the GPUs of an instance, or 1."""
    pinned = options.pinned_degree(step, "tensor")
    if pinned is not None:
        return Degree(pinned.value, "", notes.given("parallelism.tensor"))
    named = options.named_strategy(step)
    if named is None or named.value != "tensor_parallel":
        return Degree(1, "", "default")
    pipeline = options.pinned_degree(step, "pipeline")
    rest = _rest(step, pipeline.value if pipeline else 1, topology)
    if rest is not None:
        return rest
    stages = pipeline.value if pipeline else 1
    processes = topology.local_world_size or topology.process_count_per_instance
    heads = options.read_count(step, interface, "gpt_heads") if splits.is_gpt(step, interface) else None
    width = options.read_count(step, interface, "gpt_width") if heads is not None else None
    known = [number for number in (heads, width) if number is not None]
    value = degrees.largest_common_divisor(
        processes, processes, max(topology.world_size // stages, 1), *known
    )
    formula = f"{plural(processes, 'process')} an instance"
    if value != processes and heads is not None:
        formula = f"largest divisor of {processes} that divides {plural(heads, 'head')}"
    return Degree(value, formula, "tensor_parallel: neighbours on one instance")


def _pipeline(
    step: Step, topology: Topology, interface: Interface | None, tensor: int, notes: Notes
) -> Degree:
    """The pipeline degree: pinned, or by its strategy one stage an instance or, on one, a GPU; or 1."""
    pinned = options.pinned_degree(step, "pipeline")
    if pinned is not None:
        return Degree(pinned.value, "", notes.given("parallelism.pipeline"))
    named = options.named_strategy(step)
    if named is None or named.value != "pipeline_parallel":
        return Degree(1, "", "default")
    rest = _rest(step, tensor, topology)
    if rest is not None:
        return rest
    several = topology.instance_count > 1
    most = topology.instance_count if several else topology.world_size
    layers = options.read_count(step, interface, "gpt_layers") if splits.is_gpt(step, interface) else None
    room = max(topology.world_size // tensor, 1)
    value = degrees.largest_common_divisor(most, most, room, *([layers] if layers is not None else []))
    formula = plural(most, "instance") if several else f"{plural(most, 'process')} of one instance"
    if value != most and layers is not None:
        formula = f"largest divisor of {most} that divides {plural(layers, 'layer')}"
    where = "one stage an instance" if several else "one stage a process"
    return Degree(value, formula, f"pipeline_parallel: {where}")


def _rest(step: Step, others: int, topology: Topology) -> Degree | None:
    """The rest of the world size that a pinned data degree and another degree leave."""
    data = options.pinned_degree(step, "data")
    if data is None:
        return None
    value = max(topology.world_size // (data.value * others), 1)
    divisor = f"({data.value} data × {others})" if others > 1 else f"{data.value} data"
    return Degree(value, f"{topology.world_size} / {divisor}", "what the others leave")


def _mesh(step: Step, tensor: int, pipeline: int, topology: Topology, notes: Notes) -> Degrees | None:
    """The three degrees; None if their product is not the world size."""
    world, replica = topology.world_size, tensor * pipeline
    data = options.pinned_degree(step, "data")
    whole = world % replica == 0
    if data is None and not whole:
        _does_not_divide(step, tensor, pipeline, topology, notes)
        return None
    if data is None or data.value * replica == world:
        return Degrees(world // replica, tensor, pipeline)
    product = data.value * replica
    shown = Degrees(data.value, tensor, pipeline).shown()
    message = f"`parallelism` is {shown} = {product}, but the world size is {_world(topology)}"
    if whole:
        help_ = f"write `data: {world // replica}`, or leave it out: it is derived"
    else:
        help_ = f"leave `data` out, and choose `tensor` and `pipeline` whose product divides {world}"
    notes.report("parallelism-product", data.span, message, help_, *_instances(step))
    return None


def _does_not_divide(step: Step, tensor: int, pipeline: int, topology: Topology, notes: Notes) -> None:
    """Report degrees that leave no mesh. The rule ``degree-does-not-divide`` says the same of flags."""
    message = f"{degrees.show_degrees(tensor, pipeline)} does not divide the world size {_world(topology)}"
    help_ = degrees.suggest_divisors(tensor, pipeline, topology.world_size)
    if not topology.is_distributed:
        help_ = "add `distribution: {type: pytorch}` to the step or to its component"
    span = options.degree_span(step, "tensor" if tensor > 1 else "pipeline")
    notes.report("degree-does-not-divide", span, message, help_, *_instances(step))


def _world(topology: Topology) -> str:
    if not topology.is_distributed:
        return "1: the step is not distributed"
    instances = topology.instance_count
    return degrees.show_world_size(instances, topology.world_size // instances)


def _instances(step: Step) -> tuple[Related, ...]:
    return (Related(step.instance_count.span, "instances"),) if step.instance_count else ()


def _explain(step: Step, mesh: Degrees, tensor: Degree, pipeline: Degree, notes: Notes) -> None:
    """Rows of the table: each degree with where it comes from, and the mesh they make."""
    formula, source = f"{mesh.world_size} / ({mesh.tensor} × {mesh.pipeline})", "what the others leave"
    if options.pinned_degree(step, "data") is not None:
        formula, source = "", notes.given("parallelism.data")
    notes.derive("data_parallel_size", mesh.data, formula, source)
    notes.derive("tensor_parallel_size", mesh.tensor, tensor.formula, tensor.source)
    notes.derive("pipeline_parallel_size", mesh.pipeline, pipeline.formula, pipeline.source)
    notes.derive("mesh", mesh.world_size, mesh.shown(), "neighbouring ranks share a layer")
