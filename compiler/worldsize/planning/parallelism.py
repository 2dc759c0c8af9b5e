"""Plans the mesh of a step: its world size as data × tensor × pipeline degrees, and what they split."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.problem import Related
from worldsize.base.wording import plural
from worldsize.planning import degrees, options
from worldsize.planning.degrees import Degrees
from worldsize.planning.model import Interface, Notes, Topology
from worldsize.spec.model import Located, Step


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
    planned = check_splits(step, interface, mesh, topology, notes)
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
    heads = options.read_count(step, interface, "gpt_heads") if is_gpt(step, interface) else None
    width = options.read_count(step, interface, "gpt_width") if heads is not None else None
    sizes = [number for number in (heads, width) if number is not None]
    value = degrees.largest_common_divisor(
        processes, processes, max(topology.world_size // stages, 1), *sizes
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
    layers = options.read_count(step, interface, "gpt_layers") if is_gpt(step, interface) else None
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


_WHOLE = ("mlp", "cnn")  # built-in models without layers that could be shared out
_INPUTS = {"tensor": "tensor_parallel_size", "pipeline": "pipeline_parallel_size"}
_SPLITTING = ("tensor_parallel", "pipeline_parallel")
_METHODS = {"tensor": "tensor_parallel_plan()", "pipeline": "pipeline_blocks()"}  # of a user's model


def is_gpt(step: Step, interface: Interface | None) -> bool:
    """Whether the step trains the built-in gpt, whose heads, width and layers are inputs."""
    offered = interface is not None and "gpt_heads" in interface.inputs
    return offered and options.read_option(step, interface, "model") == "gpt"


def check_splits(
    step: Step, interface: Interface | None, mesh: Degrees, topology: Topology, notes: Notes
) -> str | None:
    """Report what cannot be split; return the strategy that the degrees need if the step names none."""
    if not topology.is_distributed and mesh.world_size == 1 and step.parallelism is None:
        return None
    if not _supported(step, interface, mesh, topology, notes):
        return None
    named = options.named_strategy(step)
    if named is not None:
        if _contradicts(step, named, mesh, notes):
            return None
    elif mesh.tensor * mesh.pipeline == 1:
        return None
    _model(step, interface, mesh, notes)
    planned = _planned(step, interface, mesh, notes)
    _options(step, interface, planned or (named.value if named is not None else None), notes)
    return planned


def _planned(step: Step, interface: Interface | None, mesh: Degrees, notes: Notes) -> str | None:
    """The strategy of a component that offers several, if the step names none."""
    offered = step.uses is not None and interface is not None and "strategy" in interface.inputs
    if not offered or interface is None or "strategy" in step.with_:
        return None
    if mesh.pipeline > 1:
        needed = "pipeline_parallel"
    elif interface.inputs["strategy"] == "fsdp":
        return None  # it takes a tensor degree beside its own sharding
    else:
        needed = "tensor_parallel"
    choices = interface.choices.get("strategy")
    if choices is not None and needed not in choices:
        named = ", ".join(f"`{choice}`" for choice in choices)
        message = f"{_only(mesh)} needs strategy `{needed}`, but {_component(step)} offers only {named}"
        help_ = "remove the degree, or use a component that offers it, such as `train_ddp`"
        notes.report("model-parallelism-unsupported", options.degree_span(step, _first(mesh)), message, help_)
        return None
    return needed


def _supported(
    step: Step, interface: Interface | None, mesh: Degrees, topology: Topology, notes: Notes
) -> bool:
    """Whether launcher and component support the degrees; reported if not."""
    for name, value in (("tensor", mesh.tensor), ("pipeline", mesh.pipeline)):
        if value == 1:
            continue
        if topology.launcher == "tensorflow":
            message = f"`{name}` is {value}, but TensorFlow's strategies keep a whole model on every GPU"
            help_ = f"remove `{name}`, or use a PyTorch component such as `train_ddp`"
        elif step.uses and interface is not None and _INPUTS[name] not in interface.inputs:
            message = f"`{name}` is {value}, but {_component(step)} cannot split a model: it has no input"
            message += f" `{_INPUTS[name]}`"
            help_ = f"remove `{name}`, or use a component that declares it, such as `train_ddp`"
        else:
            continue
        notes.report("model-parallelism-unsupported", options.degree_span(step, name), message, help_)
        return False
    return True


def _component(step: Step) -> str:
    return f"`{step.uses.value}`" if step.uses else f"step `{step.name}`"


def _contradicts(step: Step, named: Located[str], mesh: Degrees, notes: Notes) -> bool:
    """Whether the named strategy contradicts the degrees; reported with the fix."""
    verdict = _verdict(named.value, mesh)
    if verdict is None:
        return False
    message, help_ = verdict
    pinned = [options.pinned_degree(step, name) for name in _INPUTS]
    related = [Related(degree.span, "the degree") for degree in pinned if degree is not None]
    notes.report(
        "strategy-contradicts-degrees",
        named.span,
        f"`strategy` is `{named.value}`, {message}",
        help_,
        *related,
    )
    return True


def _verdict(strategy: str, mesh: Degrees) -> tuple[str, str] | None:
    """The end of the message, and the help; None if strategy and degrees agree."""
    tensor, pipeline = mesh.tensor, mesh.pipeline
    fitting = "pipeline_parallel" if pipeline > 1 else "tensor_parallel"
    if strategy == "ddp" and tensor * pipeline > 1:
        has = f"tensor {tensor} and pipeline {pipeline}" if tensor > 1 < pipeline else _only(mesh)
        return (
            f"which keeps a whole model in every process, but `parallelism` has {has}",
            f"write `strategy: {fitting}`, or remove the degree",
        )
    if strategy == "fsdp" and pipeline > 1:
        return (
            f"which gathers every layer on every rank, but `parallelism` has pipeline {pipeline}",
            "write `strategy: pipeline_parallel`, or `tensor` in place of `pipeline`",
        )
    if strategy == "tensor_parallel" and pipeline > 1:
        return (
            f"but `parallelism` has pipeline {pipeline}",
            "write `strategy: pipeline_parallel`, which takes a tensor degree as well",
        )
    if strategy in _SPLITTING:
        name = strategy.removesuffix("_parallel")
        if (tensor if name == "tensor" else pipeline) == 1:
            return _nothing_to_split(name, mesh.world_size)
    return None


def _only(mesh: Degrees) -> str:
    return f"tensor {mesh.tensor}" if mesh.tensor > 1 else f"pipeline {mesh.pipeline}"


def _nothing_to_split(name: str, world: int) -> tuple[str, str] | None:
    if world == 1:
        return None  # one process may rehearse any strategy
    message = f"but the {name} degree is 1 on {plural(world, 'process')}, so nothing would be split"
    smallest = degrees.divisor_near(world, 2, 1) or world
    return message, f"write `parallelism: {{{name}: {smallest}}}`, or `strategy: ddp`"


def _model(step: Step, interface: Interface | None, mesh: Degrees, notes: Notes) -> None:
    """Report a model that cannot be split, if the component offers the built-in models."""
    if interface is None or "gpt_heads" not in interface.inputs or mesh.tensor * mesh.pipeline == 1:
        return
    model = options.read_option(step, interface, "model")
    if model in _WHOLE:
        setting = step.with_.get("model")
        span = setting.span if setting is not None else options.degree_span(step, _first(mesh))
        default = "" if setting is not None else " by default"
        named = options.named_strategy(step)
        wish = (
            f"`strategy: {named.value}` asks for"
            if named and step.parallelism is None
            else "`parallelism` has"
        )
        message = f"`model` is `{model}`{default}, which cannot be split, but {wish} {_only(mesh)}"
        help_ = "use `model: gpt`, or a model of your own that says how it is split; `fsdp` shards any model"
        notes.report("model-not-splittable", span, message, help_)
    elif model == "gpt":
        _heads(step, interface, mesh, notes)
        _layers(step, interface, mesh, notes)
    elif isinstance(model, str) and ".py:" in model and "${{" not in model:
        needed = " and ".join(f"`{_METHODS[name]}`" for name in _split(mesh))
        notes.advice.append(f"`{model}` has to return a model that says how it is split, by {needed}")


def _first(mesh: Degrees) -> str:
    return "tensor" if mesh.tensor > 1 else "pipeline"


def _split(mesh: Degrees) -> list[str]:
    return [name for name in _INPUTS if getattr(mesh, name) > 1]


def _options(step: Step, interface: Interface | None, strategy: str | None, notes: Notes) -> None:
    """Report options of the built-in components that a strategy does not support."""
    if interface is None or "gpt_heads" not in interface.inputs:
        return
    refused = {
        "precision": strategy in _SPLITTING and ("fp16", "bf16", "parts of a model share no loss scale"),
        "sync_batch_norm": strategy == "pipeline_parallel" and (True, "false", "no layer is on all ranks"),
    }
    for name, case in refused.items():
        if not case or options.read_option(step, interface, name) != case[0]:
            continue
        setting = step.with_.get(name)
        shown = str(case[0]).lower()
        message = f"`{name}` is `{shown}`, which strategy `{strategy}` does not support: {case[2]}"
        span = setting.span if setting is not None else step.span
        notes.report("strategy-option-refused", span, message, f"write `{name}: {case[1]}`")


def _heads(step: Step, interface: Interface, mesh: Degrees, notes: Notes) -> None:
    """Each rank takes whole attention heads and an equal width: Megatron-LM, Shoeybi et al. 2019."""
    heads, width = (options.read_count(step, interface, name) for name in ("gpt_heads", "gpt_width"))
    for name, noun, value in (("gpt_heads", "attention heads", heads), ("gpt_width", "width", width)):
        if value is None or value % mesh.tensor == 0:
            continue
        sizes = [number for number in (heads, width) if number is not None]
        fits = degrees.largest_common_divisor(mesh.tensor, mesh.world_size // mesh.pipeline, *sizes)
        size = f"the {value} {noun}" if noun != "width" else f"the width {value}"
        message = f"the tensor degree {mesh.tensor} does not divide {size} of `gpt`"
        multiple = f"make `{name}` a multiple of {mesh.tensor}"
        help_ = f"write `tensor: {fits}`, or {multiple}" if fits > 1 else multiple
        notes.report(
            "tensor-degree-does-not-divide-model", options.degree_span(step, "tensor"), message, help_,
            *_beside(step, name),
        )  # fmt: skip
        return


def _layers(step: Step, interface: Interface, mesh: Degrees, notes: Notes) -> None:
    """Every stage has the same number of layers, because the longest stage delays all."""
    layers = options.read_count(step, interface, "gpt_layers")
    stages = mesh.pipeline
    if layers is None or layers % stages == 0:
        return
    fits = degrees.largest_common_divisor(stages, mesh.world_size // mesh.tensor, layers)
    relation = "is more than" if stages > layers else "does not divide"
    message = f"the pipeline degree {stages} {relation} the {plural(layers, 'layer')} of `gpt`"
    multiple = f"make `gpt_layers` a multiple of {stages}"
    help_ = f"write `pipeline: {fits}`, or {multiple}" if fits > 1 else multiple
    notes.report(
        "pipeline-degree-does-not-divide-layers", options.degree_span(step, "pipeline"), message, help_,
        *_beside(step, "gpt_layers"),
    )  # fmt: skip


def _beside(step: Step, name: str) -> tuple[Related, ...]:
    setting = step.with_.get(name)
    return (Related(setting.span, f"`{name}`"),) if setting is not None else ()
