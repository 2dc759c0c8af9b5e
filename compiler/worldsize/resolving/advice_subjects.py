"""The trainings of a spec, or that of an estimate file, as ``worldsize advise`` asks about them."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from worldsize.planning.advising.model import HOROVOD, PYTORCH, Rate, Sharding, Subject
from worldsize.planning.estimates.model import Case, Recomputation
from worldsize.planning.memory.workload import literal_inputs
from worldsize.planning.model import Plan, StepPlan
from worldsize.planning.model import Training as PlannedTraining
from worldsize.resolving import rows
from worldsize.resolving.planned import Planned
from worldsize.resolving.step_costs import find_checkpoint_seconds, read_tier
from worldsize.resolving.step_estimates import find_case
from wstrain.checkpoint.save_policy import ASSUMED_COST_SECONDS

_EVERY: tuple[Recomputation, ...] = ("none", "selective", "full")
_BUILT_IN: dict[str, tuple[tuple[Sharding, ...], bool]] = {  # and whether they divide layers
    "train_ddp": ((("ddp", 0), ("fsdp", 2), ("fsdp", 3)), True),
    "train_deepspeed": ((("deepspeed", 1), ("deepspeed", 2), ("deepspeed", 3)), False),
    "train_horovod": (HOROVOD, False),
}


def describe_file(name: str, case: Case) -> Subject:
    """The training of an estimate file; it is taken to write checkpoints."""
    return Subject(
        name=name,
        case=case,
        tier="dedicated",
        samples=None,
        rate=None,
        shardings=HOROVOD if case.training.strategy == "horovod" else PYTORCH,
        divides_layers=case.training.strategy != "horovod",
        combines_sharding=True,
        recomputes=_EVERY,
        checkpoint_seconds=ASSUMED_COST_SECONDS,
    )


def read_steps(planned: Planned, plan: Plan) -> tuple[tuple[Subject, ...], dict[str, str]]:
    """The training steps of a spec whose workload is known, and why that of others is not."""
    read_table = partial(rows.read_table_samples, planned.files, planned.spec.path.parent)
    subjects, unknown = [], {}
    for name, step in plan.steps.items():
        if step.training is None:
            continue
        case = find_case(planned, name, step, read_table)
        if isinstance(case, str):
            unknown[name] = case
        else:
            subjects.append(describe_step(planned, step, case))
    return tuple(subjects), unknown


def describe_step(planned: Planned, plan: StepPlan, case: Case) -> Subject:
    """A training step of a spec, whose workload is known; built-in components limit its layouts.

    Whether a model of the user's own divides its layers is not known here.
    """
    step = planned.spec.steps[plan.step]
    subject = replace(
        describe_file(plan.step, case),
        tier=read_tier(planned.spec, plan.step),
        samples=_count_samples(plan.training),
        rate=_find_rate(plan.training),
        checkpoint_seconds=find_checkpoint_seconds(plan, planned.job.steps[plan.step]),
        max_instances=_find_most_instances(planned, plan.step),
    )
    if step.uses is None or step.uses.value not in _BUILT_IN:
        return subject
    shardings, divides = _BUILT_IN[step.uses.value]
    inputs = literal_inputs(planned.job.steps[plan.step], ("precision",))
    described = step.scale is not None and step.scale.workload is not None  # a model of the user's own
    return replace(
        subject,
        shardings=shardings,
        divides_layers=divides and not described,
        combines_sharding=False,
        recomputes=("none",) if step.uses.value == "train_horovod" else ("none", "full"),
        automatic_precision=inputs["precision"] == "auto",
    )


def _find_most_instances(planned: Planned, step: str) -> int | None:
    compute = planned.spec.steps[step].compute
    profile = planned.spec.compute.get(compute.value) if compute is not None else None
    return profile.max_instances.value if profile is not None and profile.max_instances is not None else None


def _count_samples(training: PlannedTraining | None) -> float | None:
    """Samples of all optimizer steps; None where rows or epochs are unknown."""
    if training is None or training.total_steps is None:
        return None
    return float(training.total_steps * training.global_batch_size)


def _find_rate(training: PlannedTraining | None) -> Rate | None:
    if training is None:
        return None
    return Rate(
        training.rule,
        training.reference_batch_size,
        training.reference_learning_rate,
        training.epochs,
    )
