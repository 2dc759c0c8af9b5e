"""Parameter servers and workers are more than the instances.

Azure ML places the first parameter server on the first instance, beside a worker.

Why: The server takes memory and network from that worker, and the slowest worker sets the pace.

Bad::

    distribution: {type: tensorflow, worker_count: 4, parameter_server_count: 1}

Good::

    distribution: {type: tensorflow, worker_count: 3, parameter_server_count: 1}

Fix: Ask for an instance a worker and a parameter server, or for fewer workers.

Source: Microsoft Learn, CLI (v2) command job YAML schema; Azure Batch AI, issue 15 (placement of
parameter servers).
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.launch import Launch
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS220",
    "parameter-servers-share-instances",
    "warning",
    since="0.1.0",
    summary="parameter servers on the instances of workers",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        servers, workers, instances = found.servers, found.workers.value, found.instances.value
        if found.kind != "tensorflow" or not servers.value or servers.span is None:
            continue
        if workers is None or instances is None or workers > instances or _mirrored(context, found):
            continue
        over = workers + servers.value - instances
        if over > 0:
            message = (
                f"{workers} worker{'s' * (workers != 1)} and"
                f" {servers.value} parameter server{'s' * (servers.value != 1)}"
                f" share {instances} instance{'s' * (instances != 1)}"
            )
            help_ = f"write `instance_count: {workers + servers.value}`"
            if workers > over:
                help_ += f", or `worker_count: {workers - over}`"
            yield RULE.problem(servers.span, message, help_)


def _mirrored(context: Context, found: Launch) -> bool:
    """Whether another rule already says that the servers are of no use."""
    return any("MultiWorkerMirroredStrategy" in source.text for source in found.scripts(context))
