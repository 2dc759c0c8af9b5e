"""The trainings of a file, as ``worldsize advise`` asks about them, and the keys that say its answers."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from msgspec.structs import replace

from worldsize.planning.advising.model import DEEPSPEED, HOROVOD, TORCH, LayoutChoice, Option, Rate, Subject
from worldsize.planning.conflicts import HUGGING_FACE
from worldsize.planning.estimates.built_in import count_memory
from worldsize.planning.estimates.model import Case, Training
from worldsize.planning.memory.workload import literal_inputs
from worldsize.planning.model import StepPlan
from worldsize.resolving.planned import Planned
from worldsize.resolving.step_estimates import find_case, find_checkpoint_seconds, read_network, read_tier
from worldsize.spec.model import Spec, Step
from wstrain.checkpoint.save_policy import ASSUMED_COST_SECONDS

_BUILT_IN = {  # shardings, whether layers are divided, also with them, and what is recomputed
    "train_ddp": LayoutChoice(TORCH, True, False, ("none", "full")),
    "train_deepspeed": LayoutChoice(DEEPSPEED, False, False, ("none", "full")),
    "train_horovod": LayoutChoice(HOROVOD, False, False, ("none",)),
}


def describe_file(name: str, case: Case) -> Subject:
    """The training of an estimate file; it is taken to write checkpoints."""
    horovod = case.training.strategy == "horovod"
    layouts = LayoutChoice(HOROVOD, divides_layers=False) if horovod else LayoutChoice()
    return Subject(name, case, layouts, ASSUMED_COST_SECONDS)


def read_steps(planned: Planned) -> tuple[tuple[Subject, ...], dict[str, str]]:
    """The training steps of a spec whose workload is known, and why that of others is not."""
    subjects, unknown = [], {}
    for name, step in planned.step_plans.items():
        if step.training is None:
            continue
        case = find_case(planned, name, step, planned.read_table)
        if isinstance(case, str):
            unknown[name] = case
        else:
            subjects.append(describe_step(planned, step, case))
    return tuple(subjects), unknown


def describe_step(planned: Planned, plan: StepPlan, case: Case) -> Subject:
    """A training step of a spec, whose workload is known; built-in components limit its layouts.

    Whether a model of the user's own divides its layers is not known here.
    """
    step, node = planned.spec.steps[plan.step], planned.job.steps[plan.step]
    subject, training = describe_file(plan.step, case), plan.training
    assert training is not None
    steps, profile = training.total_steps, planned.spec.profile_of(plan.step)
    most = profile.max_instances if profile is not None else None
    layouts = _BUILT_IN.get(step.uses.value) if step.uses is not None else None
    described = step.scale is not None and step.scale.workload is not None  # a model of the user's own
    if layouts is not None:
        values = literal_inputs(node, ("model", "precision"))
        whole = described or str(values["model"]).startswith(HUGGING_FACE)
        layouts = replace(
            layouts,
            divides_layers=layouts.divides_layers and not whole,
            automatic_precision=values["precision"] == "auto",
        )
    read = read_network(planned, plan, planned.read_table) if layouts is not None and not described else None
    return replace(
        subject,
        layouts=layouts or subject.layouts,
        count_memory=partial(count_memory, *read) if read is not None else subject.count_memory,
        checkpoint_seconds=find_checkpoint_seconds(plan, node),
        tier=read_tier(planned.spec, plan.step),
        samples=None if steps is None else float(steps * training.global_batch_size),
        rate=Rate(
            training.rule, training.reference_batch_size, training.reference_learning_rate, training.epochs
        ),
        max_instances=most.value if most is not None else None,
    )


Settings = list[tuple[tuple[str, ...], int | str]]


def list_settings(spec: Spec, subject: Subject, option: Option) -> Settings:
    """The keys and values that make a step of the spec train as ``option`` says."""
    step, cluster, training = spec.steps[subject.name], option.cluster, option.training
    name = step.compute.value if step.compute else ""
    compute, place, scale = ("compute", name), ("steps", step.name), ("steps", step.name, "scale")
    settings: Settings = [((*compute, "instance_type"), option.instance_type)]
    if spec.compute[name].tier is not None or option.tier != "dedicated":
        settings.append(((*compute, "tier"), option.tier))
    if step.instance_count is not None or cluster.instance_count != 1:
        settings.append(((*place, "instance_count"), cluster.instance_count))
    if step.process_count_per_instance is not None:
        settings.append(((*place, "process_count_per_instance"), cluster.gpus_per_instance))
    settings.append(((*scale, "global_batch_size"), subject.case.global_batch))
    settings.append(((*scale, "batch_size_per_device"), training.micro_batch))
    if step.scale is not None and step.scale.gradient_accumulation_steps is not None:
        settings.append(((*scale, "gradient_accumulation_steps"), training.accumulation))
    return [*settings, *_set_layout(step, subject.case.training, option)]


def explain_refusal(spec: Spec, subject: Subject, option: Option) -> str | None:
    """Why a spec cannot be edited so; None if it can."""
    step = spec.steps[subject.name]
    if step.compute is None or step.compute.value not in spec.compute:
        return f"step `{step.name}` has no `compute` profile"
    sharing = [
        other.name
        for other in spec.steps.values()
        if other.name != step.name and other.compute and other.compute.value == step.compute.value
    ]
    if sharing:
        return (
            f"compute profile `{step.compute.value}` is also that of step `{sharing[0]}`:"
            f" give `{step.name}` a profile of its own"
        )
    if not _is_built_in(step) and _layout(option.training) != _layout(subject.case.training):
        return f"the command of step `{step.name}` decides its strategy; `--keep-layout` keeps it"
    return None


def _is_built_in(step: Step) -> bool:
    return step.uses is not None and step.uses.value in _BUILT_IN


_layout = attrgetter("strategy", "zero_stage", "tensor_parallel", "pipeline_parallel", "recomputation")


def _set_layout(step: Step, present: Training, option: Option) -> Settings:
    """The inputs of a built-in component that differ from the present layout."""
    training, path = option.training, ("steps", step.name)
    settings: Settings = []
    degrees = {"tensor": training.tensor_parallel, "pipeline": training.pipeline_parallel}
    if step.parallelism is not None and step.parallelism.data is not None:
        degrees["data"] = option.cluster.world_size // (degrees["tensor"] * degrees["pipeline"])
    for name, value in degrees.items():
        pinned = step.parallelism is not None and getattr(step.parallelism, name) is not None
        if pinned or (name != "data" and value > 1):
            settings.append(((*path, "parallelism", name), value))
    if _layout(training) == _layout(present) or not _is_built_in(step):
        return settings
    component, inputs = step.uses.value if step.uses else "", (*path, "with")
    if component == "train_ddp":
        settings += [((*inputs, name), value) for name, value in _name_strategy(step, training)]
    if component == "train_deepspeed":
        settings.append(((*inputs, "zero_stage"), training.zero_stage))
    if training.recomputation != present.recomputation:
        kind = "blocks" if training.recomputation == "full" else "none"
        settings.append(((*inputs, "activation_checkpointing"), kind))
    return settings


def _name_strategy(step: Step, training: Training) -> list[tuple[str, str]]:
    """The inputs `strategy` and, for sharded weights, `fsdp_reshard` of `train_ddp`."""
    if training.pipeline_parallel > 1:
        return [("strategy", "pipeline_parallel")]
    if training.tensor_parallel > 1:
        return [("strategy", "tensor_parallel")]
    named: list[tuple[str, str]] = [("strategy", training.strategy)]
    if training.strategy == "fsdp" and training.zero_stage == 2:
        named.append(("fsdp_reshard", "never"))
    elif training.strategy == "fsdp" and "fsdp_reshard" in step.with_:
        named.append(("fsdp_reshard", "auto"))
    return named
