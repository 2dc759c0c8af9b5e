"""Reports inputs of a built-in training step that contradict each other and would stop the training.

The trainers refuse the same combinations; here they are found before a machine is rented.
"""

from __future__ import annotations

from worldsize.azureml import literals
from worldsize.base.problem import Related
from worldsize.base.wording import plural, show_number
from worldsize.planning import degrees, options
from worldsize.planning.model import Interface, Notes, Topology
from worldsize.planning.topology import pinned_count
from worldsize.spec.model import Located, Step

_SERVER = "parameter_server"
_SPLIT = "tensor-degree-does-not-divide-model"
_LAYER_WISE = ("lamb", "lars")  # optimizers that scale each layer's step by the norm of its weights
_UNCOMPILED = ("tensor_parallel", "pipeline_parallel")
_DIVIDING = ("fsdp", *_UNCOMPILED)
_ONLY_WITH = {
    "fsdp_reshard": "fsdp",
    "fsdp_reduce": "fsdp",
    "fsdp_cpu_offload": "fsdp",
    "pipeline_schedule": "pipeline_parallel",
}


def check_conflicts(step: Step, interface: Interface | None, topology: Topology, notes: Notes) -> None:
    """Report the settings of a step that contradict each other."""
    _foreign_counts(step, interface, topology, notes)
    _resilience(step, interface, notes)
    if interface is None or "gpt_heads" not in interface.inputs:
        return  # not one of the built-in trainers, whose inputs are known
    _heads(step, interface, notes)
    if topology.launcher == "tensorflow":
        _servers(step, interface, topology, notes)
    _adasum(step, interface, topology, notes)
    _without_effect(step, interface, topology, notes)
    check_fine_tuning(step, interface, topology, notes)
    _training_options(step, interface, topology, notes)
    check_offload(step, interface, notes)


def _foreign_counts(step: Step, interface: Interface | None, topology: Topology, notes: Notes) -> None:
    if topology.launcher == "tensorflow" or step.uses is None or interface is None:
        return
    for name in ("worker_count", "parameter_server_count"):
        count: Located[int] | None = getattr(step, name)
        if count is None:
            continue
        started = f"runs with `{topology.launcher}`" if topology.launcher != "none" else "is one process"
        message = f"`{name}` counts processes of TensorFlow, but `{step.uses.value}` {started}"
        notes.report("distribution-field-of-other-type", count.span, message, f"remove `{name}`")


def _resilience(step: Step, interface: Interface | None, notes: Notes) -> None:
    if step.resilience is None or interface is None or "checkpoints" in interface.outputs:
        return
    message = f"step `{step.name}` has `resilience:` but no output `checkpoints` to continue from"
    help_ = "write checkpoints to an output of that name, or remove `resilience:`"
    notes.report("resilience-without-checkpoints", step.resilience.span, message, help_)


def _heads(step: Step, interface: Interface, notes: Notes) -> None:
    """Each head of ``gpt`` takes an even share of the width, as rotary positions turn numbers in pairs."""
    if options.read_option(step, interface, "model") != "gpt":
        return
    heads, width = (options.read_count(step, interface, name) for name in ("gpt_heads", "gpt_width"))
    values = [options.read_option(step, interface, name) for name in ("gpt_heads", "gpt_width")]
    if (
        heads is None
        or width is None
        or not all(literals.accepts_literal("integer", value) for value in values)
    ):
        return  # reported as no count
    if width % (2 * heads) == 0 or any(problem.slug == _SPLIT for problem in notes.problems):
        return  # the tensor degree's fault names the same number to change
    near = [degrees.divisor_near(width // 2, heads + way, way) for way in (-1, 1)] if width % 2 == 0 else []
    written = " or ".join(f"`gpt_heads: {number}`" for number in near if number is not None)
    multiple = f"make `gpt_width` a multiple of {2 * heads}"
    settings = [(name, step.with_[name]) for name in ("gpt_heads", "gpt_width") if name in step.with_]
    span = settings[0][1].span if settings else options.option_span(step, "model")
    related = [Related(setting.span, f"`{name}`") for name, setting in settings[1:]]
    message = f"`gpt_width` is {width}, not a multiple of twice `gpt_heads` {heads}"
    help_ = f"write {written}, or {multiple}" if written else multiple
    notes.report("heads-do-not-divide-width", span, message, help_, *related)


def _servers(step: Step, interface: Interface, topology: Topology, notes: Notes) -> None:
    """Parameter servers and the one strategy that has them."""
    strategy, count = options.read_option(step, interface, "strategy"), topology.parameter_server_count or 0
    if strategy != _SERVER:
        return
    pinned = pinned_count(step, "parameter_server_count")
    span = options.option_span(step, "strategy")
    if not count:
        message = f"`strategy` is `{_SERVER}`, but `parameter_server_count` is 0"
        help_ = "write `parameter_server_count: 1` in the step, or `strategy: multi_worker_mirrored`"
        related = (Related(pinned.span, "no parameter server"),) if pinned is not None else ()
        notes.report("parameter-servers-missing", span, message, help_, *related)
    gpus = topology.gpus_per_instance or 0
    if gpus > 1:
        message = (
            f"with `strategy: {_SERVER}` a worker drives one GPU, but `{topology.instance_type}`"
            f" has {plural(gpus, 'GPU')}"
        )
        help_ = "use an `instance_type` with one GPU or none, or `strategy: multi_worker_mirrored`"
        notes.report("strategy-option-refused", span, message, help_)
    if options.read_option(step, interface, "precision") == "fp16":
        _refused_precision(step, f"strategy `{_SERVER}`", "updates that overtake each other", notes)


def _adasum(step: Step, interface: Interface, topology: Topology, notes: Notes) -> None:
    """Adasum combines ranks in pairs, all of them at every step: Maleki et al. 2020."""
    if options.read_option(step, interface, "reduction") != "adasum":
        return
    world = topology.world_size
    if world & (world - 1) and not notes.wrong_counts:
        message = (
            f"`reduction: adasum` combines ranks in pairs, but the world size {world} is not a power of 2"
        )
        related = (Related(step.instance_count.span, "instances"),) if step.instance_count else ()
        help_ = f"run {_powers(world)} processes, or write `reduction: average`"
        notes.report(
            "strategy-option-refused", options.option_span(step, "reduction"), message, help_, *related
        )
    if options.read_option(step, interface, "precision") == "fp16":
        _refused_precision(step, "`reduction: adasum`", "ranks that skip a step alone", notes)


def _powers(world: int) -> str:
    below = 1 << (world.bit_length() - 1)
    return f"{below} or {2 * below}"


def _refused_precision(step: Step, who: str, why: str, notes: Notes) -> None:
    message = f"`precision` is `fp16`, which {who} does not support: its loss scale cannot handle {why}"
    notes.report(
        "strategy-option-refused", options.option_span(step, "precision"), message, "write `precision: bf16`"
    )


def _without_effect(step: Step, interface: Interface, topology: Topology, notes: Notes) -> None:
    strategy = topology.strategy or options.read_option(step, interface, "strategy")
    if not isinstance(strategy, str) or "${{" in strategy:
        return
    for name, wanted in _ONLY_WITH.items():
        setting = step.with_.get(name)
        if name not in interface.inputs or setting is None or strategy == wanted:
            continue
        if literals.render_literal(setting.value) != literals.render_literal(interface.inputs[name]):
            message = f"`{name}` is for strategy `{wanted}`; with `{strategy}` it has no effect"
            help_ = f"write `strategy: {wanted}`, or remove `{name}`"
            notes.report("option-without-effect", setting.span, message, help_)


def _training_options(step: Step, interface: Interface, topology: Topology, notes: Notes) -> None:
    """Report options that need whole layers, or layers that are computed without the strategy's own code."""
    strategy = topology.strategy or options.read_option(step, interface, "strategy")
    optimizer = options.read_option(step, interface, "optimizer")
    if optimizer in _LAYER_WISE:
        span = options.option_span(step, "optimizer")
        if options.read_option(step, interface, "reduction") == "adasum":
            message = (
                f"`optimizer: {optimizer}` needs averaged gradients, but `reduction: adasum` combines steps"
            )
            notes.report("strategy-option-refused", span, message, "write `reduction: average`")
        elif strategy in _DIVIDING:
            message = (
                f"`optimizer: {optimizer}` needs the norms of whole layers, but `{strategy}` divides them"
            )
            help_ = "write `strategy: ddp`, or another `optimizer`"
            notes.report("strategy-option-refused", span, message, help_)
    compiled = str(options.read_option(step, interface, "compile")).lower() == "true"
    if compiled and strategy in _UNCOMPILED:
        message = f"`compile` is not supported with `strategy: {strategy}`, which runs the layers itself"
        help_ = "write `strategy: ddp` or `fsdp`, or remove `compile`"
        notes.report("strategy-option-refused", options.option_span(step, "compile"), message, help_)
    if strategy == _SERVER and literals.parse_number(options.read_option(step, interface, "ema_decay")):
        message = f"`ema_decay` is not supported with `strategy: {_SERVER}`, where workers step on their own"
        help_ = "write `strategy: multi_worker_mirrored`, or remove `ema_decay`"
        notes.report("strategy-option-refused", options.option_span(step, "ema_decay"), message, help_)


_OFFLOADS = ("offload_optimizer", "offload_parameters")
_BY_CONFIG = (*_OFFLOADS, "offload_path", "loss_scale")  # what a configuration of the user's own decides


def check_offload(step: Step, interface: Interface, notes: Notes) -> None:
    """Report options that DeepSpeed refuses, and options that it ignores."""
    if "zero_stage" not in interface.inputs:
        return
    if "ds_config" in step.with_:
        for name in _BY_CONFIG:
            if name in step.with_:
                message = f"`{name}` has no effect, because `ds_config` decides what is offloaded and scaled"
                help_ = f"remove `{name}`, and set it in the configuration"
                notes.report("option-without-effect", step.with_[name].span, message, help_)
        return
    _check_stage(step, interface, notes)
    _check_path(step, interface, notes)
    _check_loss_scale(step, interface, notes)


def _check_stage(step: Step, interface: Interface, notes: Notes) -> None:
    """The stages that can offload: Ren et al. 2021 (arXiv:2101.06840), Rajbhandari et al. 2021."""
    stage = literals.parse_number(options.read_option(step, interface, "zero_stage"))
    if stage is None:
        return
    for name in _OFFLOADS:
        device = options.read_option(step, interface, name)
        if device not in ("cpu", "nvme"):
            continue
        needed = 1 if name == "offload_optimizer" and device == "cpu" else 3
        if stage >= needed:
            continue
        stages = "3" if needed == 3 else "1, 2 or 3"
        message = f"`{name}: {device}` needs `zero_stage` {stages}, but it is {show_number(stage)}"
        help_ = f"write `zero_stage: {3 if needed == 3 else 2}`, or `{name}: none`"
        notes.report("strategy-option-refused", options.option_span(step, name), message, help_)
        return  # one stage fixes both


def _check_path(step: Step, interface: Interface, notes: Notes) -> None:
    devices = {name: options.read_option(step, interface, name) for name in _OFFLOADS}
    path = options.read_option(step, interface, "offload_path")
    to_disk = [name for name, device in devices.items() if device == "nvme"]
    if to_disk and path == "":
        message = f"`{to_disk[0]}` is `nvme`, but there is no `offload_path`"
        help_ = "write `offload_path:`, a folder on a local disk of the instance such as `/mnt/offload`"
        notes.report("strategy-option-refused", options.option_span(step, to_disk[0]), message, help_)
    elif (
        path
        and "offload_path" in step.with_
        and all(device in ("none", "cpu") for device in devices.values())
    ):
        message = "`offload_path` has no effect, because nothing is offloaded to `nvme`"
        help_ = "remove it, or write `offload_optimizer: nvme` with `zero_stage: 3`"
        notes.report("option-without-effect", step.with_["offload_path"].span, message, help_)


def _check_loss_scale(step: Step, interface: Interface, notes: Notes) -> None:
    scale = literals.parse_number(options.read_option(step, interface, "loss_scale"))
    precision = options.read_option(step, interface, "precision")
    if scale and scale > 0 and precision in ("fp32", "bf16"):
        message = f"`loss_scale` is {show_number(scale)}, but only `fp16` scales the loss, not `{precision}`"
        help_ = "write `precision: fp16`, or remove `loss_scale`"
        notes.report("strategy-option-refused", options.option_span(step, "loss_scale"), message, help_)


HUGGING_FACE = "hf:"  # what the `model` of a Hugging Face folder begins with
_MODEL_PARALLEL = ("tensor_parallel", "pipeline_parallel")
_SLUG = "strategy-option-refused"
_LORA = ("lora_targets", "lora_alpha", "lora_dropout")


def check_fine_tuning(step: Step, interface: Interface, topology: Topology, notes: Notes) -> None:
    """Report the inputs of fine-tuning that the trainer refuses."""
    model = options.read_option(step, interface, "model")
    is_literal = isinstance(model, str) and "${{" not in model
    if is_literal and model.startswith(HUGGING_FACE):
        _hugging_face(step, interface, topology, model, notes)
    for name in ("freeze", "lora_targets"):
        _check_patterns(step, name, notes)
    if "lora_rank" not in interface.inputs:
        return
    rank = literals.parse_number(options.read_option(step, interface, "lora_rank"))
    if rank and is_literal and not model.startswith(HUGGING_FACE):
        message = (
            f"`lora_rank` is {show_number(rank)}, but LoRA adapts a Hugging Face model,"
            f" and `model` is `{model}`"
        )
        help_ = "write `model: hf:path/of/the/folder`, or remove `lora_rank`"
        notes.report(_SLUG, options.option_span(step, "lora_rank"), message, help_)
    for name in _LORA:
        if name in step.with_ and rank == 0:
            message = f"`{name}` has no effect, because `lora_rank` is 0"
            help_ = f"write `lora_rank: 8`, or remove `{name}`"
            notes.report("option-without-effect", step.with_[name].span, message, help_)
            return


def _hugging_face(step: Step, interface: Interface, topology: Topology, model: str, notes: Notes) -> None:
    span = options.option_span(step, "model")
    if "lora_rank" not in interface.inputs:
        message = f"`{model}` is a Hugging Face model, which only the PyTorch components train"
        notes.report(_SLUG, span, message, "write `uses: train_ddp`")
        return
    strategy = topology.strategy or options.read_option(step, interface, "strategy")
    if strategy in _MODEL_PARALLEL and topology.world_size > 1:
        message = f"`strategy: {strategy}` cannot divide the Hugging Face model `{model}`"
        help_ = "write `strategy: fsdp`, which shards any model, or `strategy: ddp`"
        notes.report(_SLUG, options.option_span(step, "strategy"), message, help_)
    if model == HUGGING_FACE and "initial_model" not in step.with_:
        message = "`model` is `hf:`, the Hugging Face model of `initial_model`, which is not given"
        help_ = "bind `initial_model`, or name a folder: `hf:path/of/the/folder`"
        notes.report(_SLUG, span, message, help_)


def _check_patterns(step: Step, name: str, notes: Notes) -> None:
    setting = step.with_.get(name)
    if setting is None or not isinstance(setting.value, str) or "${{" in setting.value:
        return
    patterns = [part.strip() for part in setting.value.split(",")]
    spaced = next((pattern for pattern in patterns if len(pattern.split()) > 1), None)
    if spaced is not None:
        message = f"`{spaced}` in `{name}` has a blank in it"
        notes.report(_SLUG, setting.span, message, "separate patterns by commas")
    elif any(patterns) and not all(patterns):
        message = f"`{name}` is `{setting.value}`, with nothing between two commas"
        notes.report(_SLUG, setting.span, message, "remove one of the commas")
