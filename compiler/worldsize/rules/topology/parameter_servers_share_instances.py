"""There are more parameter servers and workers than instances."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding
from worldsize.base.wording import plural
from worldsize.rules.context import Context
from worldsize.rules.topology.parameter_servers_unused import find_strategy


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
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
