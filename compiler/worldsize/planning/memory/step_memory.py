"""The memory of every training step whose model and samples are known, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml import literals
from worldsize.azureml.model import Component, Job, Step
from worldsize.base import limits
from worldsize.base.problem import Problem, relate
from worldsize.base.span import Span
from worldsize.base.wording import format_memory, plural, quoted_list
from worldsize.facts import gpus, vm_sizes
from worldsize.facts.built_in_components import find_facts
from worldsize.facts.vm_sizes import NOT_LEARNED, Learned, VmSize
from worldsize.planning.memory import built_in, hugging_face, verdict
from worldsize.planning.memory.estimate import Breakdown, estimate
from worldsize.planning.memory.network import Network, Setup
from worldsize.planning.memory.verdict import Knobs, Machine
from worldsize.planning.memory.workload import (
    ReadConfig,
    ReadTable,
    Samples,
    is_trainer,
    literal_inputs,
    read_samples,
    read_text,
)
from worldsize.planning.model import Plan, StepPlan, Topology
from worldsize.planning.options import parse_count

_HEAD_TASKS = frozenset({"classification", "multi_label", "regression"})  # that the built-in networks end in
_INPUTS = (
    "model", "strategy", "optimizer", "momentum", "precision", "activation_checkpointing",
    "gpt_layers", "gpt_heads", "gpt_width", "fsdp_reshard", "fsdp_reduce", "fsdp_cpu_offload",
    "pipeline_schedule", "ema_decay", "compile", "zero_stage", "offload_optimizer", "offload_parameters",
    "freeze", "lora_rank", "lora_targets",
)  # fmt: skip

MAX_LAYERS = 10_000  # worked out one by one, in a second; the deepest transformers have a tenth of it

ImportModel = Callable[[str, Samples], Network]
"""Gives the shapes of a user's model by its reference, which runs the user's code."""


class Need(Struct, frozen=True):
    """What a rank of a step needs, and the bytes that it has; None where the VM size is unknown."""

    network: Network
    setup: Setup
    breakdown: Breakdown
    available: int | None
    device: str  # "GPU" or "RAM"


def estimate_steps(
    job: Job,
    plan: Plan,
    import_model: ImportModel | None = None,
    read_table: ReadTable | None = None,
    learned: Learned = NOT_LEARNED,
    *,
    read_config: ReadConfig | None = None,
) -> dict[str, Need]:
    """The memory of each training step whose model is known.

    ``import_model`` imports a user's model, ``read_table`` reads small local tables, and ``read_config`` the
    configurations of Hugging Face models; without them, the steps that need them are left out. ``learned``
    are the VM sizes that the project describes.
    """
    needs: dict[str, Need] = {}
    for name, step in job.steps.items():
        limits.check_time()
        if name not in plan.steps or "ds_config" in step.inputs:
            continue
        topology = plan.steps[name].topology
        read = read_training(
            job,
            step,
            plan.steps[name],
            import_model=import_model,
            read_table=read_table,
            learned=learned,
            read_config=read_config,
        )
        breakdown = estimate(*read) if read is not None else None
        if read is not None and breakdown is not None:
            device = "GPU" if read[1].gpu else "RAM"
            needs[name] = Need(*read, breakdown, _find_room(topology, learned), device)
    return needs


def _find_room(topology: Topology, learned: Learned) -> int | None:
    """The bytes that a process of a step has; None where its VM size is unknown."""
    size = _size(topology, learned)
    return None if size is None else verdict.available_bytes(size, topology.process_count_per_instance)


def check_memory(
    job: Job,
    plan: Plan,
    sizes: Mapping[str, Span | None],
    learned: Learned = NOT_LEARNED,
    read_config: ReadConfig | None = None,
) -> Iterator[Problem]:
    """Report the steps that need more memory than a process has, or nearly all of it.

    ``sizes`` has the place of each step's VM size, ``learned`` are those that the project describes.
    """
    yield from _check_deep_models(job, plan, learned)
    for name, need in estimate_steps(job, plan, learned=learned, read_config=read_config).items():
        step, topology = job.steps[name], plan.steps[name].topology
        size = _size(topology, learned)
        if size is None or step.component is None or 0 < size.devices < topology.process_count_per_instance:
            continue  # a rule reports more processes than GPUs
        processes = Machine(size, topology.process_count_per_instance)
        knobs = _knobs(step.component)
        judged = verdict.judge_memory(need.network, need.setup, need.breakdown, processes, knobs)
        if judged is None:
            continue
        slug, message, help_ = judged
        at_size = sizes.get(name)
        related = relate(at_size, "the VM size")
        chosen = step.inputs.get("model") or step.reference
        span = (chosen.span if chosen is not None else None) or step.span
        if span is not None:
            yield Problem(slug, span, message, help_, related)


def _knobs(component: Component) -> Knobs:
    port = component.inputs.get("strategy")
    offered = port.enum if port is not None else None
    return Knobs(
        checkpointing="activation_checkpointing" in component.inputs,
        strategies=tuple(str(choice) for choice in (offered.value if offered is not None else ())),
        stages="zero_stage" in component.inputs,
    )


def explain_unknown(job: Job, name: str, *, imported: bool) -> str:
    """What the memory of a training step would have to be known by, for people."""
    step = job.steps[name]
    values = literal_inputs(step, ("model", "gpt_layers"))
    families = quoted_list(hugging_face.FAMILIES)
    reasons = (
        (not is_trainer(step), "calculated for the built-in PyTorch trainers only"),
        ("ds_config" in step.inputs, "`ds_config` decides what is cut and offloaded"),
        (
            str(values["model"]).startswith(hugging_face.PREFIX),
            f"it needs the model's `config.json` on this machine ({families}), or `scale: {{workload: …}}`",
        ),
        ("freeze" in step.inputs, "calculated for frozen parameters of Hugging Face models only"),
    )
    reason = next((text for applies, text in reasons if applies), None)
    if reason is not None:
        return reason
    if not imported and isinstance(values["model"], str) and ":" in values["model"]:
        return "the model or its samples are known only at run time; --import-model runs the model's code"
    if values["model"] == "gpt" and (parse_count(values["gpt_layers"]) or 0) > MAX_LAYERS:
        return f"calculated for at most {MAX_LAYERS} layers"
    return "the samples are known only at run time"


def read_training(
    job: Job,
    step: Step,
    plan: StepPlan,
    *,
    import_model: ImportModel | None = None,
    read_table: ReadTable | None = None,
    learned: Learned = NOT_LEARNED,
    read_config: ReadConfig | None = None,
) -> tuple[Network, Setup] | None:
    """The model of a built-in PyTorch trainer and how a rank trains it; None where either is unknown."""
    if not is_trainer(step) or plan.training is None:
        return None
    values = literal_inputs(step, _INPUTS)
    if str(values["model"]).startswith(hugging_face.PREFIX):
        network = _hugging_face(job, step, plan, values, read_config) if read_config is not None else None
    elif "freeze" in step.inputs:
        network = None
    else:
        network = _network(job, step, values, import_model, read_table)
    setup = read_setup(step, plan, learned) if network is not None else None
    if network is None or setup is None:
        return None
    return network, replace(setup, unused=network.name not in built_in.NAMES)


def _hugging_face(
    job: Job, step: Step, plan: StepPlan, values: Mapping[str, Any], read_config: ReadConfig
) -> Network | None:
    """A Hugging Face model, by its configuration and by what of it is trained."""
    text, config = read_text(job, step, plan), read_config(step)
    rank = parse_count(values["lora_rank"] or 0)
    patterns = [values["freeze"], values["lora_targets"]]
    unknown = any(
        values[name] is None and name in step.inputs for name in ("freeze", "lora_rank", "lora_targets")
    )
    if text is None or config is None or unknown:
        return None
    frozen, targets = (
        tuple(part.strip() for part in str(value or "").split(",") if part.strip()) for value in patterns
    )
    adapting = hugging_face.Adapting(rank or 0, targets, frozen)
    return hugging_face.describe_model(values["model"], config, *text, adapting)


def _network(
    job: Job,
    step: Step,
    values: Mapping[str, Any],
    import_model: ImportModel | None,
    read_table: ReadTable | None,
) -> Network | None:
    model = values["model"]
    read = read_samples(job, step, text=model == "gpt", read_table=read_table)
    if read is None or not isinstance(model, str):
        return None
    if model == "gpt":
        layers, heads, width = (
            parse_count(values[name]) for name in ("gpt_layers", "gpt_heads", "gpt_width")
        )
        if not layers or not heads or not width or width % heads or layers > MAX_LAYERS:
            return None
        return built_in.gpt(read.shape[0], layers, heads, width, read.outputs)
    if model in built_in.NAMES:
        if read.task not in _HEAD_TASKS:
            return None
        make = built_in.cnn if model == "cnn" else built_in.mlp
        return make(read.shape, read.outputs)
    return (
        import_model(model, read)
        if import_model is not None and ".py:" in model and "${{" not in model
        else None
    )


def choose_precision(precision: str, size: VmSize | None) -> str:
    """What the trainers' ``auto`` means on the GPUs of a VM size, and any other name as it is."""
    if precision != "auto":
        return precision
    gpu = gpus.lookup_model(size.gpu_model) if size is not None and size.gpu_model else None
    return gpu.automatic_precision if gpu is not None else "fp32"


def read_setup(step: Step, plan: StepPlan, learned: Learned = NOT_LEARNED) -> Setup | None:
    """How a rank of a built-in trainer computes: the one reading of a step's inputs, whoever asks.

    None of other components, and where a configuration of DeepSpeed decides.
    """
    facts = find_facts(step.component)
    if facts is None or not facts.built_in_models or "ds_config" in step.inputs:
        return None
    values = literal_inputs(step, _INPUTS)
    training, topology = plan.training, plan.topology
    momentum = literals.parse_number(values["momentum"])
    texts = ("strategy", "optimizer", "precision")
    if training is None or any(not isinstance(values[name], str) for name in texts):
        return None
    return Setup(
        strategy=values["strategy"],
        data=topology.data_parallel_size,
        tensor=topology.tensor_parallel_size,
        pipeline=topology.pipeline_parallel_size,
        micro_batch=training.batch_size_per_device,
        accumulation=training.gradient_accumulation_steps,
        optimizer=values["optimizer"],
        momentum=0.9 if momentum is None else momentum,
        precision=choose_precision(values["precision"], _size(topology, learned)),
        checkpointing=values["activation_checkpointing"] == "blocks",
        gpu=topology.gpus_per_instance != 0,
        stage=int(literals.parse_number(values["zero_stage"]) or 0),
        offload_optimizer=values["offload_optimizer"] in ("cpu", "nvme"),
        offload_parameters=values["offload_parameters"] in ("cpu", "nvme"),
        reshard=str(values["fsdp_reshard"] or "auto"),
        reduce_always=values["fsdp_reduce"] == "micro_batch",
        cpu_offload=str(values["fsdp_cpu_offload"]).lower() == "true",
        schedule=str(values["pipeline_schedule"] or "gpipe"),
        averaged=bool(literals.parse_number(values["ema_decay"])),
        compiled=str(values["compile"]).lower() == "true",
    )


def _size(topology: Topology, learned: Learned) -> VmSize | None:
    return vm_sizes.lookup(topology.instance_type, learned) if topology.instance_type else None


def _check_deep_models(job: Job, plan: Plan, learned: Learned) -> Iterator[Problem]:
    """Report deeper models whose weights alone, cut over all ranks, take more than a process has."""
    for name, step in job.steps.items():
        values = literal_inputs(step, ("model", "gpt_layers", "gpt_width"))
        layers, width = values["gpt_layers"], values["gpt_width"]
        span = step.inputs["gpt_layers"].span if "gpt_layers" in step.inputs else None
        if name not in plan.steps or span is None or not is_trainer(step) or values["model"] != "gpt":
            continue
        if not all(literals.accepts_literal("integer", number) for number in (layers, width)):
            continue
        if int(layers) <= MAX_LAYERS:
            continue
        topology = plan.steps[name].topology
        room = _find_room(topology, learned)
        # fp32: 12 squares of the width a layer
        least = 4 * int(layers) * 12 * int(width) ** 2 // topology.world_size
        if room is not None and least > room:
            message = (
                f"`gpt` of {layers} layers needs {format_memory(least)} per process for its weights alone,"
                f" cut over {plural(topology.world_size, 'process')},"
                f" but a process on `{topology.instance_type}` has {format_memory(room)}"
            )
            yield Problem("memory-exceeded", span, message, "write fewer `gpt_layers`")
