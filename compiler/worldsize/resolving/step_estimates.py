"""The time and cost of each training step of a spec: its workload and its cluster, from spec and plan."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml.model import Step
from worldsize.facts import vm_sizes
from worldsize.facts.prices import Tier
from worldsize.planning import cost
from worldsize.planning.estimates.built_in import describe_network, describe_setup
from worldsize.planning.estimates.calibration import NOT_CALIBRATED, Calibration
from worldsize.planning.estimates.clusters import describe_cluster, explain_no_gpu, find_gpu
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.measured_case import MeasuredRun, calibrate_from_runs, choose_runs
from worldsize.planning.estimates.model import Case, Cluster, Estimate, Interval, Training
from worldsize.planning.memory import built_in
from worldsize.planning.memory.network import Network, Setup
from worldsize.planning.memory.step_memory import read_setup, read_training
from worldsize.planning.memory.workload import ReadTable, is_trainer, literal_inputs
from worldsize.planning.model import StepPlan, Topology
from worldsize.planning.options import parse_count
from worldsize.planning.resilience import Saving
from worldsize.resolving.planned import Planned
from worldsize.resolving.workloads import make_training, make_workload
from worldsize.spec.model import Scale, Spec
from worldsize.spec.workload import Workload
from wstrain.checkpoint import save_policy
from wstrain.plan_inputs import COMPILE_PAYS_SECONDS, COMPILED

NO_GPUS = "speeds are estimated for GPUs only"


class StepEstimate(Struct, frozen=True):
    """The speed of a training step, and of the whole training; None where it is unknown.

    ``unknown`` says why there is no estimate. ``compiled`` says whether the trainer will compile the model
    because of this time; None where the step says so itself, or its component does not compile.
    """

    case: Case | None
    estimate: Estimate | None
    epoch_seconds: Interval | None
    total_seconds: Interval | None
    unknown: str | None = None
    calibration: Calibration = NOT_CALIBRATED
    compiled: bool | None = None


def estimate_steps(
    planned: Planned,
    read_table: ReadTable | None = None,
    runs: Sequence[MeasuredRun] = (),
) -> dict[str, StepEstimate]:
    """The estimate of every step that trains, or why there is none; calibrated by ``runs`` of it.

    Raises:
        UnusableRunError: A run tells nothing of the step that it trained.
    """
    trained = {name: plan for name, plan in planned.step_plans.items() if plan.training is not None}
    return {
        name: estimate_step(planned, name, plan, choose_runs(runs, name, trained), read_table)
        for name, plan in trained.items()
    }


def find_case(planned: Planned, name: str, plan: StepPlan, read_table: ReadTable | None = None) -> Case | str:
    """The question that a training step is, or the sentence that says what is missing."""
    cluster = _find_cluster(planned, plan.topology)
    if isinstance(cluster, str):
        return cluster
    question = _find_workload(planned, name, plan, read_table)
    if isinstance(question, str):
        return question
    workload, training = question
    if training.precision not in cluster.gpu.peak_flops:
        return f"{cluster.gpu.name} does not compute in {training.precision}"
    return Case(workload, training, cluster)


def estimate_step(
    planned: Planned,
    name: str,
    plan: StepPlan,
    runs: Sequence[MeasuredRun] = (),
    read_table: ReadTable | None = None,
) -> StepEstimate:
    """The estimate of one step that trains, or why there is none; calibrated by ``runs`` that trained it.

    Raises:
        UnusableRunError: A run tells nothing of it.
    """
    case = find_case(planned, name, plan, read_table)
    if isinstance(case, str):
        return StepEstimate(None, None, None, None, case)
    calibration = calibrate_from_runs(case.workload, runs, planned.vm_sizes)
    answer = estimate(case.workload, case.training, case.cluster, calibration)
    if answer is None:
        return StepEstimate(case, None, None, None, "the network of the VM size is not known")
    training = plan.training
    steps = (training.steps_per_epoch, training.total_steps) if training is not None else (None, None)
    epoch, total = (None if count is None else answer.step_seconds.scale(count) for count in steps)
    compiled = _is_compiled(planned.job.steps[name], total)
    return StepEstimate(case, answer, epoch, total, calibration=calibration, compiled=compiled)


def _is_compiled(step: Step, total: Interval | None) -> bool | None:
    if step.component is None or not is_trainer(step) or "compile" in step.inputs:
        return None
    values = literal_inputs(step, ("model", "strategy"))
    if "compile" not in step.component.inputs or values["model"] not in built_in.NAMES or total is None:
        return None
    return values["strategy"] in COMPILED and total.expected >= COMPILE_PAYS_SECONDS


def _find_cluster(planned: Planned, topology: Topology) -> Cluster | str:
    size = vm_sizes.lookup(topology.instance_type, planned.vm_sizes) if topology.instance_type else None
    if size is None:
        return "the VM size is not known"
    if size.gpus == 0:
        return NO_GPUS
    gpu = find_gpu(size)
    if gpu is None:
        return explain_no_gpu(size)
    # TensorFlow's replicas and processes of the other launchers are one a GPU.
    used = max(1, topology.world_size // max(topology.instance_count, 1))
    return describe_cluster(
        gpu, size, gpus_per_instance=min(used, size.devices), instance_count=topology.instance_count
    )


def _find_workload(
    planned: Planned, name: str, plan: StepPlan, read_table: ReadTable | None
) -> tuple[Workload, Training] | str:
    scale, step = planned.spec.steps[name].scale, planned.job.steps[name]
    if scale is not None and scale.workload is not None:
        setup = read_setup(step, plan, planned.vm_sizes)
        training = describe_setup(setup) if setup is not None else _read_arithmetic(scale, plan)
        return make_workload(scale.workload), training
    read = read_network(planned, plan, read_table)
    if read is None:
        return "no speed of this model on this data is known: describe it by `scale: {workload: …}`"
    network, setup = read
    heads = parse_count(literal_inputs(step, ("gpt_heads",))["gpt_heads"])
    return describe_network(network, heads), describe_setup(setup)


def read_network(
    planned: Planned, plan: StepPlan, read_table: ReadTable | None = None
) -> tuple[Network, Setup] | None:
    """The model of a step with a built-in trainer, layer by layer, and how a rank trains it."""
    return read_training(
        planned.job,
        planned.job.steps[plan.step],
        plan,
        read_table=read_table,
        learned=planned.vm_sizes,
        read_config=planned.read_config,
    )


def _read_arithmetic(scale: Scale, plan: StepPlan) -> Training:
    """How a script of the user's own trains: what `arithmetic` says, and what was planned."""
    planned = plan.training
    assert planned is not None
    training = make_training(
        scale.arithmetic, planned.batch_size_per_device, planned.gradient_accumulation_steps
    )
    return replace(
        training,
        optimizer=(planned.optimizer or training.optimizer).lower(),
        tensor_parallel=plan.topology.tensor_parallel_size,
        pipeline_parallel=plan.topology.pipeline_parallel_size,
    )


def find_checkpoint_seconds(plan: StepPlan, step: Step) -> float | None:
    """Seconds that one checkpoint takes: as planned, else assumed; None for a step that may save none.

    A component that asks for the interval between checkpoints, or has an output of that name, saves them.
    """
    planned = _find_derived(plan, "checkpoint_seconds")
    if planned is not None:
        return planned
    component = step.component
    outputs = {*step.outputs, *(component.outputs if component is not None else ())}
    saves = "checkpoints" in outputs or (component is not None and "checkpoint_interval" in component.inputs)
    return save_policy.ASSUMED_COST_SECONDS if saves else None


def find_saving(plan: StepPlan, step: Step, tier: Tier) -> Saving | None:
    """How a step writes checkpoints against interruptions; None if nothing says that it does.

    ``resilience:`` says it, and what runs on low-priority instances and can save is taken to.
    """
    seconds, between = (
        find_checkpoint_seconds(plan, step),
        _find_derived(plan, "mean_time_between_preemptions"),
    )
    count = plan.topology.instance_count
    if between is None and tier == "low_priority":
        between = cost.mean_seconds_between_evictions(count)
    return None if seconds is None or between is None else Saving(seconds, between, count)


def read_tier(spec: Spec, name: str) -> Tier:
    """The tier of a step's compute profile."""
    profile = spec.profile_of(name)
    is_low = profile is not None and profile.tier is not None and profile.tier.value == "low_priority"
    return "low_priority" if is_low else "dedicated"


def _find_derived(plan: StepPlan, quantity: str) -> float | None:
    row = plan.find_row(quantity)
    return float(row.value) if row is not None and isinstance(row.value, (int, float)) else None
