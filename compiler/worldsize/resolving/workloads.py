"""From the keys of a spec or an estimate file to a question for the step-time model, or to what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import convert

from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import plural, quoted_list
from worldsize.facts import gpus, vm_sizes
from worldsize.facts.gpus import Gpu
from worldsize.facts.vm_sizes import NOT_LEARNED, Learned, VmSize, explain_unknown_size
from worldsize.planning.estimates.clusters import describe_cluster
from worldsize.planning.estimates.memory import describe_shortage, find_fitting, fits
from worldsize.planning.estimates.model import Case, Cluster, Recomputation, Training
from worldsize.spec.model import EstimateKeys, Located, WorkloadKeys
from worldsize.spec.workload import KINDS, Transformer, Workload

Values = Mapping[str, Located[Any]]
_RECOMPUTATION: dict[Any, Recomputation] = {True: "full", False: "none", "selective": "selective"}


def make_workload(keys: WorkloadKeys) -> Workload:
    """The workload of keys that were checked."""
    values = {name: located.value for name, located in keys.values.items() if name != "kind"}
    return convert(values, KINDS[keys.kind], strict=False)  # a whole number may be written `4.0`


def make_training(values: Values, micro_batch: int, accumulation: int) -> Training:
    """How it is trained, from the keys of ``training:`` or ``arithmetic:``."""
    strategy, degrees = _value(values, "strategy", "ddp"), _value(values, "parallelism", {})
    return Training(
        micro_batch=micro_batch,
        accumulation=accumulation,
        precision=_value(values, "precision", "fp32"),
        strategy=strategy,
        zero_stage=_value(values, "zero_stage", 3 if strategy == "fsdp" else 0),
        recomputation=_RECOMPUTATION[_value(values, "activation_checkpointing", False)],
        optimizer=_value(values, "optimizer", "adamw"),
        tensor_parallel=degrees.get("tensor", 1),
        pipeline_parallel=degrees.get("pipeline", 1),
    )


def make_cluster(
    values: Values, span: Span, problems: list[Problem], learned: Learned = NOT_LEARNED
) -> Cluster | None:
    """The cluster of the keys of ``cluster:``; None, with what is wrong reported, if its GPU is unknown."""
    before, gpu = len(problems), None
    size = _find_size(values, problems, learned)
    if len(problems) > before:
        return None
    if "gpu" in values:
        gpu = _find_gpu(values["gpu"], size, problems)
    elif size is not None:
        gpu = _find_gpu_of_size(values["instance_type"], size, problems)
    count = _count_gpus(values, size, span, problems)
    if gpu is None or len(problems) > before:
        return None
    return describe_cluster(
        gpu,
        size,
        gpus_per_instance=count,
        instance_count=_value(values, "instance_count", 1),
        network_gbit=_value(values, "network_gbit", None),
        rdma=_value(values, "rdma", None),
        input_samples_per_s=_value(values, "input_samples_per_second", None),
    )


def _value(values: Values, name: str, default: Any) -> Any:
    return values[name].value if name in values else default


def _find_size(values: Values, problems: list[Problem], learned: Learned) -> VmSize | None:
    if "instance_type" not in values:
        return None
    located = values["instance_type"]
    size = vm_sizes.lookup(located.value, learned)
    if size is None:
        message, help_ = explain_unknown_size(located.value, learned)
        problems.append(Problem("spec-value-not-allowed", located.span, message, help_))
    return size


def _find_gpu(located: Located[Any], size: VmSize | None, problems: list[Problem]) -> Gpu | None:
    gpu = gpus.lookup(located.value)
    if gpu is None:
        help_ = did_you_mean(located.value, gpus.names())
        message = f"`{located.value}` is not a GPU that Worldsize knows"
        problems.append(Problem("spec-value-not-allowed", located.span, message, help_))
    elif size is not None and gpus.lookup_model(size.gpu_model) not in (gpu, None):
        message = f"`gpu` is {gpu.name}, but `{size.name}` has {size.gpu_model}"
        problems.append(Problem("spec-value-not-allowed", located.span, message, "remove `gpu`"))
    return gpu


def _find_gpu_of_size(located: Located[Any], size: VmSize, problems: list[Problem]) -> Gpu | None:
    gpu = gpus.lookup_model(size.gpu_model)
    if size.gpus == 0:
        message = f"`{size.name}` has no GPU, and only speeds of GPUs are estimated"
        problems.append(Problem("spec-value-not-allowed", located.span, message, "choose a size with GPUs"))
    elif gpu is None or size.gpus != size.devices:
        what = size.gpu_model or "its GPUs" if gpu is None else f"a share of {size.gpu_model}"
        message = f"no speed is known of {what} in `{size.name}`"
        help_ = f"choose one of {quoted_list(gpus.names(), 24)} by `gpu:`"
        problems.append(Problem("spec-value-not-allowed", located.span, message, help_))
    return gpu


def _count_gpus(values: Values, size: VmSize | None, span: Span, problems: list[Problem]) -> int:
    located = values.get("gpus_per_instance")
    if located is None:
        if size is None:
            message = "`cluster` has `gpu` but no `gpus_per_instance`"
            problems.append(Problem("spec-missing-key", span, message, "add `gpus_per_instance: 8`"))
            return 1
        return max(size.devices, 1)
    if size is not None and located.value > size.devices > 0:
        message = (
            f"`gpus_per_instance` is {located.value}, but `{size.name}` has {plural(size.devices, 'GPU')}"
        )
        problems.append(Problem("spec-out-of-range", located.span, message, f"write at most {size.devices}"))
    return int(located.value)


def check_case(case: Case, places: Mapping[str, Span]) -> list[Problem]:
    """What keeps a case from being trained at all.

    ``places`` has the spans of ``precision`` and ``parallelism``, or of what stands for them.
    """
    gpu, precision = case.cluster.gpu, case.training.precision
    problems = _check_degrees(case, places["parallelism"])
    if precision not in gpu.peak_flops:
        message = f"`precision` is {precision}, which {gpu.name} does not compute in"
        help_ = f"allowed: {quoted_list(gpu.peak_flops)}"
        problems.insert(0, Problem("spec-value-not-allowed", places["precision"], message, help_))
    return problems


def _check_degrees(case: Case, span: Span) -> list[Problem]:
    training, world = case.training, case.cluster.world_size
    ways = training.tensor_parallel * training.pipeline_parallel
    problems = []
    if ways > 1 and not isinstance(case.workload, Transformer):
        message = "only transformers are estimated with tensor or pipeline parallelism"
        return [Problem("spec-value-not-allowed", span, message, "remove `parallelism`")]
    if world % ways:
        message = (
            f"tensor parallelism of {training.tensor_parallel} × pipeline parallelism of"
            f" {training.pipeline_parallel} does not divide {plural(world, 'GPU')}"
        )
        problems.append(
            Problem("parallelism-product", span, message, "choose divisors of the number of GPUs")
        )
    if isinstance(case.workload, Transformer):
        if case.workload.heads % training.tensor_parallel:
            degree = training.tensor_parallel
            message = f"tensor parallelism of {degree} does not divide {case.workload.heads} heads"
            help_ = "choose a divisor of `heads`"
            problems.append(Problem("tensor-degree-does-not-divide-model", span, message, help_))
        if training.pipeline_parallel > case.workload.layers:
            message = f"{training.pipeline_parallel} stages for {plural(case.workload.layers, 'layer')}"
            help_ = f"write at most `pipeline: {case.workload.layers}`"
            problems.append(Problem("pipeline-degree-does-not-divide-layers", span, message, help_))
    return problems


def resolve_case(keys: EstimateKeys, problems: list[Problem], learned: Learned = NOT_LEARNED) -> Case | None:
    """The case of a file that was read; None with at least one problem, added to those of reading it."""
    micro_batch, accumulation = keys.training["micro_batch"].value, _value(keys.training, "accumulation", 1)
    training = make_training(keys.training, micro_batch, accumulation)
    cluster = make_cluster(keys.cluster, keys.spans["cluster"], problems, learned)
    if cluster is None or problems:
        return None
    case = Case(make_workload(keys.workload), training, cluster)
    places = {
        name: keys.training[name].span if name in keys.training else keys.spans["training"]
        for name in ("precision", "parallelism")
    }
    problems += check_case(case, places)
    if not problems and not fits(case):
        fitting = ", or ".join(text for text, _ in find_fitting(case))
        help_ = f"what fits: {fitting}" if fitting else "divide the model over more or larger GPUs"
        span = keys.training["micro_batch"].span
        problems.append(Problem("memory-exceeded", span, describe_shortage(case), help_))
    return None if problems else case


def explain_unknown(case: Case) -> str:
    """Which rate keeps a speed from being estimated."""
    cluster = case.cluster
    of = f" of {cluster.instance_type}" if cluster.instance_type else ""
    if cluster.instance_count > 1 and (cluster.network_bytes_per_s is None or cluster.rdma is None):
        return f"the network{of} is not known: add `network_gbit` and `rdma` to `cluster`"
    return f"the link between the GPUs{of} is not known"
