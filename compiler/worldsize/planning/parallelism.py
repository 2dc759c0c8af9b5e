"""Plans the mesh of a step: its world size as data × tensor × pipeline degrees, and what they split."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.problem import Related, relate
from worldsize.base.wording import plural
from worldsize.planning import degrees
from worldsize.planning.degrees import Degrees
from worldsize.planning.model import Topology
from worldsize.planning.options import Settings
from worldsize.spec.model import Located


class Degree(Struct, frozen=True):
    """One degree, with its formula and source for the table."""

    value: int
    formula: str
    source: str


def plan_mesh(settings: Settings) -> Topology | None:
    """Add the degrees to the topology of a step; None if their product is not the world size.

    Rows of the table, advice and problems are added to the notes.
    """
    step, notes = settings.step, settings.notes
    tensor = _tensor(settings)
    pipeline = _pipeline(settings, tensor.value)
    mesh = _mesh(settings, tensor.value, pipeline.value)
    if mesh is None:
        return None
    planned = _check_splits(settings, mesh)
    if step.parallelism is not None or mesh.splits:
        _explain(settings, mesh, tensor, pipeline)
    if planned is not None:
        named = f"pipeline {mesh.pipeline}" if mesh.pipeline > 1 else f"tensor {mesh.tensor}"
        notes.derive("strategy", planned, "", f"{named} needs it")
    return replace(
        settings.topology,
        tensor_parallel_size=mesh.tensor,
        pipeline_parallel_size=mesh.pipeline,
        strategy=planned,
    )


def _tensor(settings: Settings) -> Degree:
    """The tensor degree: pinned, or by its strategy the GPUs of an instance, or 1."""
    pipeline, topology = settings.pinned_degree("pipeline"), settings.topology
    stages = pipeline.value if pipeline else 1
    fixed = _find_fixed(settings, "tensor", stages)
    if fixed is not None:
        return fixed
    processes = topology.local_world_size or topology.process_count_per_instance
    heads = settings.count("gpt_heads") if settings.trains_gpt else None
    width = settings.count("gpt_width") if heads is not None else None
    sizes = [number for number in (heads, width) if number is not None]
    value = degrees.largest_common_divisor(
        processes, processes, max(topology.world_size // stages, 1), *sizes
    )
    formula = f"{plural(processes, 'process')} an instance"
    if value != processes and heads is not None:
        formula = f"largest divisor of {processes} that divides {plural(heads, 'head')}"
    return Degree(value, formula, "tensor_parallel: neighbours on one instance")


def _pipeline(settings: Settings, tensor: int) -> Degree:
    """The pipeline degree: pinned, or by its strategy one stage an instance or, on one, a GPU; or 1."""
    fixed = _find_fixed(settings, "pipeline", tensor)
    if fixed is not None:
        return fixed
    topology = settings.topology
    several = topology.instance_count > 1
    most = topology.instance_count if several else topology.world_size
    layers = settings.count("gpt_layers") if settings.trains_gpt else None
    room = max(topology.world_size // tensor, 1)
    value = degrees.largest_common_divisor(most, most, room, *([layers] if layers is not None else []))
    formula = plural(most, "instance") if several else f"{plural(most, 'process')} of one instance"
    if value != most and layers is not None:
        formula = f"largest divisor of {most} that divides {plural(layers, 'layer')}"
    where = "one stage an instance" if several else "one stage a process"
    return Degree(value, formula, f"pipeline_parallel: {where}")


def _find_fixed(settings: Settings, name: str, others: int) -> Degree | None:
    """A degree that is pinned, that the strategy leaves at 1, or that is what a pinned data degree leaves."""
    pinned, named = settings.pinned_degree(name), settings.named_strategy()
    if pinned is not None:
        return Degree(pinned.value, "", settings.notes.given(f"parallelism.{name}"))
    if named is None or named.value != f"{name}_parallel":
        return Degree(1, "", "default")
    data, world = settings.pinned_degree("data"), settings.topology.world_size
    if data is None:
        return None
    divisor = f"({data.value} data × {others})" if others > 1 else f"{data.value} data"
    value = max(world // (data.value * others), 1)
    return Degree(value, f"{world} / {divisor}", "what the others leave")


def _mesh(settings: Settings, tensor: int, pipeline: int) -> Degrees | None:
    """The three degrees; None if their product is not the world size."""
    world, replica = settings.topology.world_size, tensor * pipeline
    data = settings.pinned_degree("data")
    whole = world % replica == 0
    if data is None and not whole:
        _does_not_divide(settings, tensor, pipeline)
        return None
    if data is None or data.value * replica == world:
        return Degrees(world // replica, tensor, pipeline)
    shown, product = Degrees(data.value, tensor, pipeline).shown(), data.value * replica
    message = f"`parallelism` is {shown} = {product}, but the world size is {_world(settings.topology)}"
    if whole:
        help_ = f"write `data: {world // replica}`, or leave it out: it is derived"
    else:
        help_ = f"leave `data` out, and choose `tensor` and `pipeline` whose product divides {world}"
    settings.notes.report("parallelism-product", data.span, message, help_, *_instances(settings))
    return None


def _does_not_divide(settings: Settings, tensor: int, pipeline: int) -> None:
    """Report degrees that leave no mesh. The rule ``degree-does-not-divide`` says the same of flags."""
    topology = settings.topology
    message = f"{degrees.show_degrees(tensor, pipeline)} does not divide the world size {_world(topology)}"
    help_ = degrees.suggest_divisors(tensor, pipeline, topology.world_size)
    if not topology.is_distributed:
        help_ = "add `distribution: {type: pytorch}` to the step or to its component"
    span = settings.degree_span("tensor" if tensor > 1 else "pipeline")
    settings.notes.report("degree-does-not-divide", span, message, help_, *_instances(settings))


def _world(topology: Topology) -> str:
    if not topology.is_distributed:
        return "1: the step is not distributed"
    instances = topology.instance_count
    return degrees.show_world_size(instances, topology.world_size // instances)


def _instances(settings: Settings) -> tuple[Related, ...]:
    count = settings.step.instance_count
    return relate(count.span if count else None, "instances")


def _explain(settings: Settings, mesh: Degrees, tensor: Degree, pipeline: Degree) -> None:
    """Rows of the table: each degree with where it comes from, and the mesh they make."""
    notes = settings.notes
    formula, source = f"{mesh.world_size} / ({mesh.tensor} × {mesh.pipeline})", "what the others leave"
    if settings.pinned_degree("data") is not None:
        formula, source = "", notes.given("parallelism.data")
    notes.derive("data_parallel_size", mesh.data, formula, source)
    notes.derive("tensor_parallel_size", mesh.tensor, tensor.formula, tensor.source)
    notes.derive("pipeline_parallel_size", mesh.pipeline, pipeline.formula, pipeline.source)
    notes.derive("mesh", mesh.world_size, mesh.shown(), "neighbouring ranks share a layer")


_WHOLE = ("mlp", "cnn")  # built-in models without layers that could be shared out
_INPUTS = {"tensor": "tensor_parallel_size", "pipeline": "pipeline_parallel_size"}
_SPLITTING = ("tensor_parallel", "pipeline_parallel")
_METHODS = {"tensor": "tensor_parallel_plan()", "pipeline": "pipeline_blocks()"}  # of a user's model


def _check_splits(settings: Settings, mesh: Degrees) -> str | None:
    """Report what cannot be split; return the strategy that the degrees need if the step names none."""
    named = settings.named_strategy()
    if not settings.topology.is_distributed and mesh.world_size == 1 and settings.step.parallelism is None:
        return None
    if not _supported(settings, mesh) or (named is not None and _contradicts(settings, named, mesh)):
        return None
    if named is None and not mesh.splits:
        return None
    if mesh.splits and settings.has_built_in_models:
        _model(settings, mesh)
    planned = _planned(settings, mesh)
    if settings.has_built_in_models:
        _options(settings, planned or (named.value if named is not None else None))
    return planned


def _planned(settings: Settings, mesh: Degrees) -> str | None:
    """The strategy of a component that offers several, if the step names none."""
    step, interface = settings.step, settings.interface
    if step.uses is None or interface is None or not settings.offers("strategy") or "strategy" in step.with_:
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
        message = f"{_only(mesh)} needs strategy `{needed}`, but {_component(settings)} offers only {named}"
        help_ = "remove the degree, or use a component that offers it, such as `train_ddp`"
        settings.notes.report(
            "model-parallelism-unsupported", settings.degree_span(_first(mesh)), message, help_
        )
        return None
    return needed


def _supported(settings: Settings, mesh: Degrees) -> bool:
    """Whether launcher and component support the degrees; reported if not."""
    for name, value in (("tensor", mesh.tensor), ("pipeline", mesh.pipeline)):
        if value == 1:
            continue
        if settings.topology.launcher == "tensorflow":
            message = f"`{name}` is {value}, but TensorFlow's strategies keep a whole model on every GPU"
            help_ = f"remove `{name}`, or use a PyTorch component such as `train_ddp`"
        elif settings.step.uses and settings.interface is not None and not settings.offers(_INPUTS[name]):
            message = f"`{name}` is {value}, but {_component(settings)} cannot split a model: it has no input"
            message += f" `{_INPUTS[name]}`"
            help_ = f"remove `{name}`, or use a component that declares it, such as `train_ddp`"
        else:
            continue
        settings.notes.report("model-parallelism-unsupported", settings.degree_span(name), message, help_)
        return False
    return True


def _component(settings: Settings) -> str:
    uses = settings.step.uses
    return f"`{uses.value}`" if uses else f"step `{settings.step.name}`"


def _contradicts(settings: Settings, named: Located[str], mesh: Degrees) -> bool:
    """Whether the named strategy contradicts the degrees; reported with the fix."""
    verdict = _verdict(named.value, mesh)
    if verdict is None:
        return False
    message, help_ = f"`strategy` is `{named.value}`, {verdict[0]}", verdict[1]
    pinned = [settings.pinned_degree(name) for name in _INPUTS]
    related = [Related(degree.span, "the degree") for degree in pinned if degree is not None]
    settings.notes.report("strategy-contradicts-degrees", named.span, message, help_, *related)
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


def _model(settings: Settings, mesh: Degrees) -> None:
    """Report a model that cannot be split, if the component offers the built-in models."""
    step, model = settings.step, settings.read("model")
    if model in _WHOLE:
        setting, named = step.with_.get("model"), settings.named_strategy()
        span = setting.span if setting is not None else settings.degree_span(_first(mesh))
        default = "" if setting is not None else " by default"
        asks = named is not None and step.parallelism is None
        wish = f"`strategy: {named.value}` asks for" if named and asks else "`parallelism` has"
        message = f"`model` is `{model}`{default}, which cannot be split, but {wish} {_only(mesh)}"
        help_ = "use `model: gpt`, or a model of your own that says how it is split; `fsdp` shards any model"
        settings.notes.report("model-not-splittable", span, message, help_)
    elif model == "gpt":
        _heads(settings, mesh)
        _layers(settings, mesh)
    elif isinstance(model, str) and ".py:" in model and "${{" not in model:
        needed = " and ".join(f"`{_METHODS[name]}`" for name in _INPUTS if getattr(mesh, name) > 1)
        settings.notes.advice.append(
            f"`{model}` has to return a model that says how it is split, by {needed}"
        )


def _first(mesh: Degrees) -> str:
    return "tensor" if mesh.tensor > 1 else "pipeline"


def _options(settings: Settings, strategy: str | None) -> None:
    """Report options of the built-in components that a strategy does not support."""
    refused = {
        "precision": strategy in _SPLITTING and ("fp16", "bf16", "parts of a model share no loss scale"),
        "sync_batch_norm": strategy == "pipeline_parallel" and (True, "false", "no layer is on all ranks"),
    }
    for name, case in refused.items():
        if not case or settings.read(name) != case[0]:
            continue
        shown = str(case[0]).lower()
        message = f"`{name}` is `{shown}`, which strategy `{strategy}` does not support: {case[2]}"
        span = settings.step.with_.get(name, settings.step).span
        settings.notes.report("strategy-option-refused", span, message, f"write `{name}: {case[1]}`")


def _heads(settings: Settings, mesh: Degrees) -> None:
    """Each rank takes whole attention heads and an equal width: Megatron-LM, Shoeybi et al. 2019."""
    sizes = {name: count for name in ("gpt_heads", "gpt_width") if (count := settings.count(name))}
    name, value = next((pair for pair in sizes.items() if pair[1] % mesh.tensor), ("", 0))
    if not value:
        return
    fits = degrees.largest_common_divisor(mesh.tensor, mesh.world_size // mesh.pipeline, *sizes.values())
    size = f"the {value} attention heads" if name == "gpt_heads" else f"the width {value}"
    message = f"the tensor degree {mesh.tensor} does not divide {size} of `gpt`"
    # Where the heads divide and the width does not, no degree helps: each head takes an even share of it.
    least = mesh.tensor if name == "gpt_heads" else 2 * sizes.get("gpt_heads", mesh.tensor)
    help_ = _help_misfit("tensor", fits if name == "gpt_heads" else 0, name, least)
    span, related = settings.degree_span("tensor"), settings.relate(name)
    settings.notes.report("tensor-degree-does-not-divide-model", span, message, help_, *related)


def _layers(settings: Settings, mesh: Degrees) -> None:
    """Every stage has the same number of layers, because the longest stage delays all."""
    layers, stages = settings.count("gpt_layers"), mesh.pipeline
    if layers is None or layers % stages == 0:
        return
    fits = degrees.largest_common_divisor(stages, mesh.world_size // mesh.tensor, layers)
    relation = "is more than" if stages > layers else "does not divide"
    message = f"the pipeline degree {stages} {relation} the {plural(layers, 'layer')} of `gpt`"
    help_ = _help_misfit("pipeline", fits, "gpt_layers", stages)
    span, related = settings.degree_span("pipeline"), settings.relate("gpt_layers")
    settings.notes.report("pipeline-degree-does-not-divide-layers", span, message, help_, *related)


def _help_misfit(degree: str, fits: int, name: str, value: int) -> str:
    multiple = f"make `{name}` a multiple of {value}"
    return f"write `{degree}: {fits}`, or {multiple}" if fits > 1 else multiple
