"""The memory of every training step whose model and samples are known, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.azureml import literals
from worldsize.azureml.model import Component, Job, Step
from worldsize.base import budget
from worldsize.base.problem import Problem, Related
from worldsize.emit import memory_bound, memory_depth, samples
from worldsize.emit.samples import Samples
from worldsize.facts import vm_sizes
from worldsize.planning.memory import built_in, sizes, verdict
from worldsize.planning.memory.estimate import Breakdown, estimate
from worldsize.planning.memory.network import Network
from worldsize.planning.memory.remedies import Knobs
from worldsize.planning.memory.setup import Setup
from worldsize.planning.memory.verdict import Place
from worldsize.planning.model import Plan, StepPlan
from worldsize.spec.model import Spec

_INPUTS = (
    "model", "strategy", "optimizer", "momentum", "precision", "activation_checkpointing",
    "gpt_layers", "gpt_heads", "gpt_width", "fsdp_reshard", "fsdp_reduce", "fsdp_cpu_offload",
    "pipeline_schedule", "zero_stage", "offload_optimizer", "offload_parameters",
)  # fmt: skip

Import = Callable[[str, Samples], Network]
"""Gives the shapes of a user's model by its reference, which runs the user's code."""


class Need(Struct, frozen=True):
    """What a rank of a step needs, and the bytes that it has; None where the VM size is unknown."""

    network: Network
    setup: Setup
    breakdown: Breakdown
    available: int | None
    device: str  # "GPU" or "RAM"


def needs(job: Job, plan: Plan, load: Import | None = None, folder: Path | None = None) -> dict[str, Need]:
    """The memory of each training step that is known inside.

    Args:
        job: the resolved graph.
        plan: its plan.
        load: reads a user's model; left out, steps with one are left out.
        folder: the spec's, to look into small local tables; left out, steps with own data are left out.
    """
    found: dict[str, Need] = {}
    for name, step in job.steps.items():
        budget.check_time()
        need = _need(job, step, plan.steps[name], load, folder) if name in plan.steps else None
        if need is not None:
            found[name] = need
    return found


def check(spec: Spec, job: Job, plan: Plan) -> Iterator[Problem]:
    """Report the steps that need more memory than a process has, or nearly all."""
    yield from memory_depth.check(spec, job, plan)
    for name, need in needs(job, plan).items():
        place = _place(plan.steps[name])
        component = job.steps[name].component
        if place is None or component is None:
            continue
        found = verdict.judge(need.network, need.setup, need.breakdown, place, knobs(component))
        if found is None:
            continue
        step = spec.steps[name]
        profile = spec.compute.get(step.compute.value) if step.compute else None
        size = profile.instance_type if profile else None
        at = step.with_.get("model") or step.uses
        related = (Related(size.span, "the VM size"),) if size is not None else ()
        yield Problem(found[0], at.span if at else step.span, found[1], found[2], related)


def knobs(component: Component) -> Knobs:
    """What a component lets one choose that saves memory."""
    port = component.inputs.get("strategy")
    offered = port.enum if port is not None else None
    return Knobs(
        checkpointing="activation_checkpointing" in component.inputs,
        strategies=tuple(str(choice) for choice in (offered.value if offered is not None else ())),
        stages="zero_stage" in component.inputs,
    )


def why_unknown(job: Job, name: str, *, imported: bool) -> str:
    """What the memory of a training step would have to be known by, for people."""
    step = job.steps[name]
    if not memory_bound.is_trainer(step):
        return "worked out for the built-in PyTorch trainers only"
    if "ds_config" in step.inputs:
        return "`ds_config` decides what is cut and offloaded"
    given = samples.values(step, ("model", "gpt_layers"))
    if not imported and isinstance(given["model"], str) and ":" in given["model"]:
        return "the model or its samples are known only at run time; --import-model runs the model's code"
    if given["model"] == "gpt" and (_count(given["gpt_layers"]) or 0) > memory_depth.MOST_LAYERS:
        return f"worked out for at most {memory_depth.MOST_LAYERS} layers"
    return "the samples are known only at run time"


def _need(job: Job, step: Step, plan: StepPlan, load: Import | None, folder: Path | None) -> Need | None:
    if not memory_bound.is_trainer(step) or plan.training is None or "ds_config" in step.inputs:
        return None
    given = samples.values(step, _INPUTS)
    network = _network(job, step, given, load, folder)
    setup = _setup(given, plan) if network is not None else None
    found = estimate(network, setup) if network is not None and setup is not None else None
    if network is None or setup is None or found is None:
        return None
    place = _place(plan)
    room = sizes.available(place.size, place.processes) if place else None
    return Need(network, setup, found, room, "GPU" if setup.gpu else "RAM")


def _network(
    job: Job, step: Step, given: Mapping[str, Any], load: Import | None, folder: Path | None
) -> Network | None:
    model = given["model"]
    read = samples.of(job, step, text=model == "gpt", folder=folder)
    if read is None or not isinstance(model, str):
        return None
    if model == "gpt":
        layers, heads, width = (_count(given[name]) for name in ("gpt_layers", "gpt_heads", "gpt_width"))
        if not layers or not heads or not width or width % heads or layers > memory_depth.MOST_LAYERS:
            return None
        return built_in.gpt(read.shape[0], layers, heads, width)
    if model in built_in.NAMES:
        if read.task != "classification":
            return None
        make = built_in.cnn if model == "cnn" else built_in.mlp
        return make(read.shape, read.outputs)
    return load(model, read) if load is not None and ":" in model and "${{" not in model else None


def _setup(given: Mapping[str, Any], plan: StepPlan) -> Setup | None:
    training, topology = plan.training, plan.topology
    momentum = literals.number(given["momentum"])
    texts = ("strategy", "optimizer", "precision")
    if training is None or any(not isinstance(given[name], str) for name in texts):
        return None
    return Setup(
        strategy=given["strategy"],
        data=topology.data_parallel_size,
        tensor=topology.tensor_parallel_size,
        pipeline=topology.pipeline_parallel_size,
        micro_batch=training.batch_size_per_device,
        accumulation=training.gradient_accumulation_steps,
        optimizer=given["optimizer"],
        momentum=0.9 if momentum is None else momentum,
        precision=given["precision"],
        checkpointing=given["activation_checkpointing"] == "blocks",
        gpu=topology.gpus_per_instance != 0,
        stage=int(literals.number(given["zero_stage"]) or 0),
        offload_optimizer=given["offload_optimizer"] in ("cpu", "nvme"),
        offload_parameters=given["offload_parameters"] in ("cpu", "nvme"),
        reshard=str(given["fsdp_reshard"] or "auto"),
        reduce_always=given["fsdp_reduce"] == "micro_batch",
        cpu_offload=str(given["fsdp_cpu_offload"]).lower() == "true",
        schedule=str(given["pipeline_schedule"] or "gpipe"),
    )


def _place(plan: StepPlan) -> Place | None:
    topology = plan.topology
    size = vm_sizes.lookup(topology.instance_type) if topology.instance_type else None
    return Place(size, topology.process_count_per_instance) if size is not None else None


def _count(value: Any) -> int | None:
    number = literals.number(value)
    return int(number) if number is not None and number >= 1 and number == int(number) else None
