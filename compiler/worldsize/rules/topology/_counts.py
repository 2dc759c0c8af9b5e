"""Counts and limits: not positive, bound to what is not, or contradicting the instances of the job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from worldsize.azureml import binding, fields, graph, literals
from worldsize.azureml.job import Compute
from worldsize.azureml.launch import Launch, read_input
from worldsize.azureml.model import AZURE_ML, Component, Field, Job, Literal, Step
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Related, relate
from worldsize.base.wording import plural
from worldsize.documents.yaml.nodes import Mapping

_LEAST = {
    "process_count_per_instance": 1,
    "worker_count": 1,
    "parameter_server_count": 0,
    "instance_count": 1,
    "max_instance_count": 1,
    "timeout": 1,
    "trial_timeout": 1,
    "max_total_trials": 1,
    "max_concurrent_trials": 1,
}

_LEAST_OF_PARALLEL = {
    "max_concurrency_per_instance": 1,
    "error_threshold": -1,
    "mini_batch_error_threshold": -1,
}
_LEAST_OF_RETRIES = {"max_retries": 0, "timeout": 1}
_LEAST_OF_STOPPING = {"evaluation_interval": 1, "delay_evaluation": 0, "truncation_percentage": 1}
_MOST = {"truncation_percentage": 99}  # Microsoft Learn, "Hyperparameter tuning a model"

_LEAST_OF_COMPUTE = {
    "min_instances": 0,
    "max_instances": 1,
    "idle_time_before_scale_down": 0,
    "idle_time_before_shutdown_minutes": 15,
}


def check_step(context: Tree, step: Step) -> Iterator[Finding]:
    for block in (step.distribution, step.resources, step.limits):
        yield from _check_counts(block, _LEAST)
    if step.type == "parallel" and isinstance(step.raw, Mapping):
        yield from _check_parallel(step.raw)
    if step.type == "sweep" and isinstance(step.raw, Mapping):
        yield from _check_counts(fields.read_field(step.raw, "early_termination"), _LEAST_OF_STOPPING)


def check_component(context: Tree, component: Component) -> Iterator[Finding]:
    for block in (component.distribution, component.resources):
        yield from _check_counts(block, _LEAST)
    if component.type == "parallel" and component.path is not None and isinstance(component.raw, Mapping):
        yield from _check_parallel(component.raw)


def _check_parallel(raw: Mapping) -> Iterator[Finding]:
    yield from _check_counts(fields.read_node(raw), _LEAST_OF_PARALLEL)
    yield from _check_counts(fields.read_field(raw, "retry_settings"), _LEAST_OF_RETRIES)


def check_compute(context: Tree, compute: Compute) -> Iterator[Finding]:
    if compute.raw is not None:
        yield from _check_counts(fields.read_node(compute.raw), _LEAST_OF_COMPUTE)


def _check_counts(block: Field[Any] | None, least_by_name: dict[str, int]) -> Iterator[Finding]:
    for name, least in least_by_name.items():
        field = fields.read_member(block, name)
        if field is None or field.span is None:
            continue
        value = literals.parse_number(field.value)
        if value is not None and value < least:
            unit = " second" if "timeout" in name else ""
            message = f"`{name}` is {field.value} but must be at least {least}{unit}"
            yield Finding(field.span, message, f"write a whole number of at least {least}, or remove it")
        most = _MOST.get(name)
        if value is not None and most is not None and value > most:
            message = f"`{name}` is {field.value} but must be at most {most}"
            yield Finding(field.span, message, f"write a whole number from {least} to {most}")


_COUNTS = ("process_count_per_instance", "worker_count", "instance_count", "max_instance_count")


def check_count_from_wrong_input(context: Tree, job: Job) -> Iterator[Finding]:
    for step in job.steps.values():
        if not graph.is_inline(step):  # a count of an inline job takes no binding at all
            yield from _step(job, step)


def _step(job: Job, step: Step) -> Iterator[Finding]:
    for block in (step.distribution, step.resources):
        for name in _COUNTS:
            field = fields.read_member(block, name)
            expression = binding.parse_expression(field.value) if field is not None else None
            if field is None or field.span is None or expression is None:
                continue
            if expression.scope != "parent.inputs":
                continue
            port = expression.port or ""
            fault, related = _fault(job, port)
            if fault:
                message = f"`{name}` is bound to `{port}`, which {fault}"
                help_ = f"give `{port}` a whole number of at least 1"
                yield Finding(field.span, message, help_, related=related)


def _fault(job: Job, port: str) -> tuple[str, tuple[Related, ...]]:
    if job.interface is not None:
        declared = job.interface.inputs.get(port)
        if declared is None:
            return "the pipeline does not have", ()
        wrong = declared.type not in ("integer", "number")
        return (f"is an input of type `{declared.type}`" if wrong else ""), ()
    source: Field[Any] | None = job.inputs.get(port)
    if source is None:
        return "the pipeline does not have", ()
    related = relate(source.span, "given here")
    if not isinstance(source.value, Literal):
        return "is data", related
    number = literals.parse_number(source.value.value)
    whole = number is not None and number == int(number) and number >= 1
    return ("" if whole else f"is `{source.value.value}`"), related


def check_instance_count_exceeds_max(context: Tree, launch: Launch) -> Iterator[Finding]:
    count, cluster = launch.instances, launch.cluster
    if cluster is None or count.value is None or count.span is None:
        return
    limit = cluster.max_instances
    if limit is not None and limit > 0 and count.value > limit:
        message = f"`instance_count` is {count.value} but the cluster has `max_instances` {limit}"
        help_ = f"write at most {limit}, or raise `max_instances` to {count.value}"
        yield Finding(count.span, message, help_, relate(cluster.max_span, "the maximum of the cluster"))


def check_max_instances_below_count(context: Tree, launch: Launch) -> Iterator[Finding]:
    limit, count = launch.max_instances, launch.instances
    if limit.value is None or limit.span is None or count.value is None:
        return
    if limit.value < count.value:
        message = f"`max_instance_count` is {limit.value} but `instance_count` is {count.value}"
        related = relate(count.span, "the instances to start with")
        yield Finding(limit.span, message, f"write at least {count.value}, or remove it", related=related)


def check_instances_without_distribution(context: Tree, launch: Launch) -> Iterator[Finding]:
    count, component = launch.instances, launch.step.component
    if launch.step.type != "command" or component is None or component.type != "command":
        return
    block = launch.step.distribution or component.distribution
    if block is None and count.value is not None and count.value > 1 and count.span is not None:
        message = (
            f"`instance_count` is {count.value}, but without `distribution` the command runs on 1 of them"
        )
        yield Finding(count.span, message, _advise(context, launch))


def _advise(context: Tree, launch: Launch) -> str:
    """What to write where: a step of a spec that uses a component has no `distribution` of its own."""
    add, step = "add `distribution: {type: pytorch}`", launch.step
    if launch.job.keys is not AZURE_ML and step.reference is not None:
        if context.is_built_in(step.component):
            return "remove `instance_count`: the component runs on one instance"
        add += " to the component"
    return f"{add}, or remove `instance_count`"


def check_worker_count_disagrees(context: Tree, launch: Launch) -> Iterator[Finding]:
    workers, instances = launch.workers, launch.instances
    if launch.kind != "tensorflow" or workers.value is None or instances.value is None:
        return
    if workers.span is not None and workers.value > instances.value:
        where = "" if instances.field else " by default"
        message = f"`worker_count` is {workers.value} but `instance_count` is {instances.value}{where}"
        message += ": several workers would share an instance and its GPUs"
        help_ = f"write {instances.value}, or `instance_count: {workers.value}`"
        yield Finding(workers.span, message, help_, relate(instances.span, "one worker per instance"))


def check_workers_below_instances(context: Tree, launch: Launch) -> Iterator[Finding]:
    workers, instances, servers = launch.workers, launch.instances, launch.servers
    if launch.kind != "tensorflow" or workers.span is None:
        return
    if workers.value is None or instances.value is None or servers.value is None:
        return
    idle = instances.value - workers.value - servers.value
    if idle > 0:
        counts = f"`worker_count` is {workers.value} but `instance_count` is {instances.value}"
        message = f"{counts}: {plural(idle, 'instance')} would run nothing"
        related = relate(instances.span, "instances of the job")
        yield Finding(
            workers.span, message, f"write `worker_count: {instances.value - servers.value}`", related=related
        )


_MIRRORED = re.compile(r"MultiWorkerMirroredStrategy|CollectiveAllReduceStrategy")
_WITHOUT = "a strategy without parameter servers"


def check_parameter_servers_unused(context: Tree, launch: Launch) -> Iterator[Finding]:
    servers = launch.servers
    if launch.kind != "tensorflow" or not servers.value or servers.span is None:
        return
    strategy = find_strategy(launch)
    if strategy is None:
        yield from _judge_scripts(context, launch)
    elif strategy != "parameter_server":
        message = f"`parameter_server_count` is {servers.value}, but strategy `{strategy}` uses none"
        setting = launch.step.inputs.get("strategy")
        related = (Related(setting.span, _WITHOUT),) if setting is not None and setting.span else ()
        yield Finding(servers.span, message, "remove `parameter_server_count`", related)


def find_strategy(launch: Launch) -> str | None:
    """The strategy of a built-in trainer; None for another component, or if unknown."""
    component = launch.step.component
    if component is None or not {"strategy", "gpt_heads"} <= set(component.inputs):
        return None
    strategy = read_input(launch, "strategy")
    return strategy if isinstance(strategy, str) and "${{" not in strategy else None


def _judge_scripts(context: Tree, launch: Launch) -> Iterator[Finding]:
    servers, scripts = launch.servers, launch.scripts(context)
    if servers.span is None or any("ParameterServerStrategy" in source.text for source in scripts):
        return
    for source in scripts:
        match = _MIRRORED.search(source.text)
        if match is not None:
            message = f"`parameter_server_count` is {servers.value}, but the script uses {match.group()}"
            related = (Related(source.span(*match.span()), _WITHOUT),)
            yield Finding(servers.span, message, "remove `parameter_server_count`", related)
            return


def check_parameter_servers_share_instances(context: Tree, launch: Launch) -> Iterator[Finding]:
    servers, workers, instances = launch.servers, launch.workers.value, launch.instances.value
    if launch.kind != "tensorflow" or not servers.value or servers.span is None:
        return
    if workers is None or instances is None or workers > instances or _mirrored(context, launch):
        return
    over = workers + servers.value - instances
    if over > 0:
        message = (
            f"{plural(workers, 'worker')} and {plural(servers.value, 'parameter server')}"
            f" share {plural(instances, 'instance')}"
        )
        help_ = f"write `instance_count: {workers + servers.value}`"
        if launch.workers.span is None:
            help_ += f" and `worker_count: {workers}`"
        if workers > over:
            help_ += f", or `worker_count: {workers - over}`"
        yield Finding(servers.span, message, help_)


def _mirrored(context: Tree, launch: Launch) -> bool:
    """Whether another rule already says that the servers are not used."""
    if find_strategy(launch) not in (None, "parameter_server"):
        return True
    return any("MultiWorkerMirroredStrategy" in source.text for source in launch.scripts(context))
