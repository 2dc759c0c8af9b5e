"""TensorFlow's workers and parameter servers beside the instances that they run on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.launch import Launch, read_input
from worldsize.base.problem import Finding, Related, relate
from worldsize.base.wording import plural
from worldsize.rules.context import Context


def check_worker_count_disagrees(context: Context, launch: Launch) -> Iterator[Finding]:
    workers, instances = launch.workers, launch.instances
    if launch.kind != "tensorflow" or workers.value is None or instances.value is None:
        return
    if workers.span is not None and workers.value > instances.value:
        where = "" if instances.field else " by default"
        message = f"`worker_count` is {workers.value} but `instance_count` is {instances.value}{where}"
        message += ": several workers would share an instance and its GPUs"
        help_ = f"write {instances.value}, or `instance_count: {workers.value}`"
        yield Finding(workers.span, message, help_, relate(instances.span, "one worker per instance"))


def check_workers_below_instances(context: Context, launch: Launch) -> Iterator[Finding]:
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


def check_parameter_servers_unused(context: Context, launch: Launch) -> Iterator[Finding]:
    servers = launch.servers
    if launch.kind != "tensorflow" or not servers.value or servers.span is None:
        return
    strategy = find_strategy(launch)
    if strategy is None:
        yield from _judge_scripts(context, launch)
    elif strategy != "parameter_server":
        message = f"`parameter_server_count` is {servers.value}, but strategy `{strategy}` uses none"
        help_ = "write `strategy: parameter_server`, or remove `parameter_server_count`"
        setting = launch.step.inputs.get("strategy")
        related = (Related(setting.span, _WITHOUT),) if setting is not None and setting.span else ()
        yield Finding(servers.span, message, help_, related)


def find_strategy(launch: Launch) -> str | None:
    """The strategy of a built-in trainer; None for another component, or if unknown."""
    component = launch.step.component
    if component is None or not {"strategy", "gpt_heads"} <= set(component.inputs):
        return None
    strategy = read_input(launch, "strategy")
    return strategy if isinstance(strategy, str) and "${{" not in strategy else None


def _judge_scripts(context: Context, launch: Launch) -> Iterator[Finding]:
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


def check_parameter_servers_share_instances(context: Context, launch: Launch) -> Iterator[Finding]:
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


def _mirrored(context: Context, launch: Launch) -> bool:
    """Whether another rule already says that the servers are not used."""
    if find_strategy(launch) not in (None, "parameter_server"):
        return True
    return any("MultiWorkerMirroredStrategy" in source.text for source in launch.scripts(context))
