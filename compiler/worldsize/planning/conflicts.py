"""Reports inputs of a built-in training step that contradict each other and would stop the training.

The trainers refuse the same combinations; here they are found before a machine is rented.
"""

from __future__ import annotations

from typing import Any

from worldsize.azureml import literals
from worldsize.base.problem import relate
from worldsize.base.wording import plural, show_number
from worldsize.facts import gpus, vm_sizes
from worldsize.planning import degrees
from worldsize.planning.options import Settings
from worldsize.planning.topology import pinned_count
from worldsize.spec.model import Located

_SERVER = "parameter_server"
_SPLIT = "tensor-degree-does-not-divide-model"
_LAYER_WISE = ("lamb", "lars")  # optimizers that scale each layer's step by the norm of its weights
_MODEL_PARALLEL = ("tensor_parallel", "pipeline_parallel")
_DIVIDING = ("fsdp", *_MODEL_PARALLEL)
_ONLY_WITH = {
    "fsdp_reshard": "fsdp",
    "fsdp_reduce": "fsdp",
    "fsdp_cpu_offload": "fsdp",
    "pipeline_schedule": "pipeline_parallel",
}


def check_conflicts(settings: Settings) -> None:
    """Report the settings of a step that contradict each other."""
    _foreign_counts(settings)
    _resilience(settings)
    if not settings.has_built_in_models:
        return
    _heads(settings)
    if settings.topology.launcher == "tensorflow":
        _servers(settings)
    _adasum(settings)
    _without_effect(settings)
    _hardware(settings)
    _fine_tuning(settings)
    _training_options(settings)
    _offload(settings)


def _foreign_counts(settings: Settings) -> None:
    step, launcher = settings.step, settings.topology.launcher
    if launcher == "tensorflow" or step.uses is None or settings.interface is None:
        return
    for name in ("worker_count", "parameter_server_count"):
        count: Located[int] | None = getattr(step, name)
        if count is None:
            continue
        started = f"runs with `{launcher}`" if launcher != "none" else "is one process"
        message = f"`{name}` counts processes of TensorFlow, but `{step.uses.value}` {started}"
        settings.notes.report("distribution-field-of-other-type", count.span, message, f"remove `{name}`")


def _resilience(settings: Settings) -> None:
    step, interface = settings.step, settings.interface
    if step.resilience is None or interface is None or "checkpoints" in interface.outputs:
        return
    message = f"step `{step.name}` has `resilience:` but no output `checkpoints` to continue from"
    help_ = "write checkpoints to an output of that name, or remove `resilience:`"
    settings.notes.report("resilience-without-checkpoints", step.resilience.span, message, help_)


def _heads(settings: Settings) -> None:
    """Each head of ``gpt`` takes an even share of the width, as rotary positions turn numbers in pairs."""
    names = ("gpt_heads", "gpt_width")
    heads, width = map(settings.count, names)
    whole = all(literals.accepts_literal("integer", settings.read(name)) for name in names)
    if not settings.trains_gpt or heads is None or width is None or not whole:
        return  # reported as no count
    if width % (2 * heads) == 0 or any(problem.slug == _SPLIT for problem in settings.notes.problems):
        return  # the tensor degree's fault names the same number to change
    near = [degrees.divisor_near(width // 2, heads + way, way) for way in (-1, 1)] if width % 2 == 0 else []
    written = " or ".join(f"`gpt_heads: {number}`" for number in near if number is not None)
    multiple = f"make `gpt_width` a multiple of {2 * heads}"
    places = [place for name in names for place in settings.relate(name)]
    span = places[0].span if places else settings.span_of("model")
    message = f"`gpt_width` is {width}, not a multiple of twice `gpt_heads` {heads}"
    help_ = f"write {written}, or {multiple}" if written else multiple
    settings.notes.report("heads-do-not-divide-width", span, message, help_, *places[1:])


def _servers(settings: Settings) -> None:
    """Parameter servers and the one strategy that has them."""
    topology = settings.topology
    if settings.read("strategy") != _SERVER:
        return
    if not topology.parameter_server_count:
        pinned = pinned_count(settings.step, "parameter_server_count")
        message = f"`strategy` is `{_SERVER}`, but `parameter_server_count` is 0"
        workers = topology.instance_count
        counts = f"`worker_count: {workers}`, `instance_count: {workers + 1}`"
        ours = f"`parameter_server_count: 1`, {counts} in the step"
        help_ = f"write {ours}, or `strategy: multi_worker_mirrored`"
        related = relate(pinned.span if pinned else None, "no parameter server")
        settings.notes.report(
            "parameter-servers-missing", settings.span_of("strategy"), message, help_, *related
        )
    gpus = topology.gpus_per_instance or 0
    if gpus > 1:
        message = (
            f"with `strategy: {_SERVER}` a worker drives one GPU, but `{topology.instance_type}`"
            f" has {plural(gpus, 'GPU')}"
        )
        help_ = "use an `instance_type` with one GPU or none, or `strategy: multi_worker_mirrored`"
        settings.refuse("strategy", message, help_)
    _half_precision(settings, f"strategy `{_SERVER}`", "updates that overtake each other")


def _adasum(settings: Settings) -> None:
    """Adasum combines ranks in pairs, all of them at every step: Maleki et al. 2020."""
    if settings.read("reduction") != "adasum":
        return
    world, instances = settings.topology.world_size, settings.step.instance_count
    if world & (world - 1) and not settings.notes.wrong_counts:
        message = (
            f"`reduction: adasum` combines ranks in pairs, but the world size {world} is not a power of 2"
        )
        help_ = f"run {_powers(world)} processes, or write `reduction: average`"
        settings.refuse(
            "reduction", message, help_, *relate(instances.span if instances else None, "instances")
        )
    _half_precision(settings, "`reduction: adasum`", "ranks that skip a step alone")


def _powers(world: int) -> str:
    below = 1 << (world.bit_length() - 1)
    return f"{below} or {2 * below}"


def _half_precision(settings: Settings, who: str, why: str) -> None:
    if settings.read("precision") == "fp16":
        message = f"`precision` is `fp16`, which {who} does not support: its loss scale cannot handle {why}"
        settings.refuse("precision", message, "write `precision: bf16`")


def _hardware(settings: Settings) -> None:
    """Report bfloat16 on GPUs without it, which the trainers with PyTorch's autocast refuse."""
    size = vm_sizes.lookup(settings.topology.instance_type or "")
    gpu = gpus.lookup_model(size.gpu_model) if size is not None and size.gpu_model else None
    if gpu is None or not settings.offers("lora_rank") or settings.offers("zero_stage"):
        return
    if settings.read("precision") == "bf16" and gpu.automatic_precision != "bf16":
        where = f"{gpu.name} of `{settings.topology.instance_type}`"
        message = f"`precision` is `bf16`, which {where} does not compute in"
        settings.refuse("precision", message, "write `precision: fp16` or `fp32`")


def _without_effect(settings: Settings) -> None:
    strategy = settings.strategy
    if not _is_literal(strategy):
        return
    for name, wanted in _ONLY_WITH.items():
        setting = settings.step.with_.get(name)
        if not settings.offers(name) or setting is None or strategy == wanted:
            continue
        assert settings.interface is not None
        default = settings.interface.inputs[name]
        if literals.render_literal(setting.value) != literals.render_literal(default):
            message = f"`{name}` is for strategy `{wanted}`; with `{strategy}` it has no effect"
            settings.report_useless(name, message, f"write `strategy: {wanted}`, or remove `{name}`")


def _is_literal(value: Any) -> bool:
    return isinstance(value, str) and "${{" not in value


def _training_options(settings: Settings) -> None:
    """Report options that need whole layers, or layers that are computed without the strategy's own code."""
    strategy, optimizer = settings.strategy, settings.read("optimizer")
    if optimizer in _LAYER_WISE and settings.read("reduction") == "adasum":
        message = f"`optimizer: {optimizer}` needs averaged gradients, but `reduction: adasum` combines steps"
        settings.refuse("optimizer", message, "write `reduction: average`")
    elif optimizer in _LAYER_WISE and strategy in _DIVIDING:
        message = f"`optimizer: {optimizer}` needs the norms of whole layers, but `{strategy}` divides them"
        settings.refuse("optimizer", message, "write `strategy: ddp`, or another `optimizer`")
    if str(settings.read("compile")).lower() == "true" and strategy in _MODEL_PARALLEL:
        message = f"`compile` is not supported with `strategy: {strategy}`, which runs the layers itself"
        settings.refuse("compile", message, "remove `compile`, or choose `ddp` or `fsdp`")
    if strategy == _SERVER and literals.parse_number(settings.read("ema_decay")):
        message = f"`ema_decay` is not supported with `strategy: {_SERVER}`, where workers step on their own"
        settings.refuse("ema_decay", message, "remove `ema_decay`, or choose `multi_worker_mirrored`")


_OFFLOADS = ("offload_optimizer", "offload_parameters")
_BY_CONFIG = (*_OFFLOADS, "offload_path", "loss_scale")  # what a configuration of the user's own decides


def _offload(settings: Settings) -> None:
    """Report options that DeepSpeed refuses, and options that it ignores."""
    if not settings.offers("zero_stage"):
        return
    if "ds_config" in settings.step.with_:
        for name in _BY_CONFIG:
            if name in settings.step.with_:
                message = f"`{name}` has no effect, because `ds_config` decides what is offloaded and scaled"
                settings.report_useless(name, message, f"remove `{name}`, and set it in the configuration")
        return
    _check_stage(settings)
    _check_path(settings)
    _check_loss_scale(settings)


def _check_stage(settings: Settings) -> None:
    """The stages that can offload: Ren et al. 2021 (arXiv:2101.06840), Rajbhandari et al. 2021."""
    stage = literals.parse_number(settings.read("zero_stage"))
    for name in _OFFLOADS if stage is not None else ():
        device = settings.read(name)
        needed = 1 if name == "offload_optimizer" and device == "cpu" else 3
        if device not in ("cpu", "nvme") or stage is None or stage >= needed:
            continue
        stages = "3" if needed == 3 else "1, 2 or 3"
        message = f"`{name}: {device}` needs `zero_stage` {stages}, but it is {show_number(stage)}"
        settings.refuse(name, message, f"write `zero_stage: {3 if needed == 3 else 2}`, or `{name}: none`")
        return  # one stage fixes both


def _check_path(settings: Settings) -> None:
    devices = {name: settings.read(name) for name in _OFFLOADS}
    path = settings.read("offload_path")
    to_disk = [name for name, device in devices.items() if device == "nvme"]
    if to_disk and path == "":
        message = f"`{to_disk[0]}` is `nvme`, but there is no `offload_path`"
        help_ = "write `offload_path:`, a folder on a local disk of the instance such as `/mnt/offload`"
        settings.refuse(to_disk[0], message, help_)
    elif (
        path
        and "offload_path" in settings.step.with_
        and all(device in ("none", "cpu") for device in devices.values())
    ):
        message = "`offload_path` has no effect, because nothing is offloaded to `nvme`"
        help_ = "remove it, or write `offload_optimizer: nvme` with `zero_stage: 3`"
        settings.report_useless("offload_path", message, help_)


def _check_loss_scale(settings: Settings) -> None:
    scale = literals.parse_number(settings.read("loss_scale"))
    precision = settings.read("precision")
    if scale and scale > 0 and precision in ("fp32", "bf16"):
        message = f"`loss_scale` is {show_number(scale)}, but only `fp16` scales the loss, not `{precision}`"
        settings.refuse("loss_scale", message, "write `precision: fp16`, or remove `loss_scale`")


HUGGING_FACE = "hf:"  # what the `model` of a Hugging Face folder begins with
_LORA = ("lora_targets", "lora_alpha", "lora_dropout")


def _fine_tuning(settings: Settings) -> None:
    """Report the inputs of fine-tuning that the trainer refuses."""
    model = settings.read("model")
    if _is_literal(model) and model.startswith(HUGGING_FACE):
        _hugging_face(settings, model)
    for name in ("freeze", "lora_targets"):
        _check_patterns(settings, name)
    if not settings.offers("lora_rank"):
        return
    rank = literals.parse_number(settings.read("lora_rank"))
    if rank and _is_literal(model) and not model.startswith(HUGGING_FACE):
        message = (
            f"`lora_rank` is {show_number(rank)}, but LoRA adapts a Hugging Face model,"
            f" and `model` is `{model}`"
        )
        settings.refuse("lora_rank", message, "write `model: hf:path/of/the/folder`, or remove `lora_rank`")
    useless = next((name for name in _LORA if name in settings.step.with_), None)
    if useless is not None and rank == 0:
        message = f"`{useless}` has no effect, because `lora_rank` is 0"
        settings.report_useless(useless, message, f"write `lora_rank: 8`, or remove `{useless}`")


def _hugging_face(settings: Settings, model: str) -> None:
    if not settings.offers("lora_rank"):
        message = f"`{model}` is a Hugging Face model, which only the PyTorch components train"
        settings.refuse("model", message, "write `uses: train_ddp`")
        return
    strategy = settings.strategy
    if strategy in _MODEL_PARALLEL and settings.topology.world_size > 1:
        message = f"`strategy: {strategy}` cannot divide the Hugging Face model `{model}`"
        help_ = "write `strategy: fsdp`, which shards any model, or `strategy: ddp`"
        settings.refuse("strategy", message, help_)
    if model == HUGGING_FACE and "initial_model" not in settings.step.with_:
        message = "`model` is `hf:`, the Hugging Face model of `initial_model`, which is not given"
        settings.refuse("model", message, "bind `initial_model`, or name a folder: `hf:path/of/the/folder`")


def _check_patterns(settings: Settings, name: str) -> None:
    setting = settings.step.with_.get(name)
    if setting is None or not _is_literal(setting.value):
        return
    patterns = [part.strip() for part in setting.value.split(",")]
    spaced = next((pattern for pattern in patterns if len(pattern.split()) > 1), None)
    if spaced is not None:
        settings.refuse(name, f"`{spaced}` in `{name}` has a blank in it", "separate patterns by commas")
    elif any(patterns) and not all(patterns):
        message = f"`{name}` is `{setting.value}`, with nothing between two commas"
        settings.refuse(name, message, "remove one of the commas")
