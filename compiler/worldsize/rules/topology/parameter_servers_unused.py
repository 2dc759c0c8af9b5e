"""Parameter servers are started for a script that uses MultiWorkerMirroredStrategy.

That strategy averages gradients among the workers and knows no parameter servers.

Why: The process that gets the role `ps` stops with `Unexpected task_type`, and the runtime stops all
others.

Bad::

    distribution: {type: tensorflow, worker_count: 4, parameter_server_count: 1}

Good::

    distribution: {type: tensorflow, worker_count: 4}

Fix: Remove `parameter_server_count`, or use `ParameterServerStrategy` in the script.

Source: TensorFlow, Multi-worker training guide; Microsoft Learn, CLI (v2) command job YAML schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem, Related
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS219",
    "parameter-servers-unused",
    "error",
    since="0.1.0",
    summary="parameter servers for a strategy that has none",
)


_MIRRORED = re.compile(r"MultiWorkerMirroredStrategy|CollectiveAllReduceStrategy")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        servers = found.servers
        if found.kind != "tensorflow" or not servers.value or servers.span is None:
            continue
        texts = found.scripts(context)
        if any("ParameterServerStrategy" in source.text for source in texts):
            continue
        for source in texts:
            match = _MIRRORED.search(source.text)
            if match is not None:
                message = f"`parameter_server_count` is {servers.value}, but the script uses {match.group()}"
                related = (Related(source.span(*match.span()), "a strategy without parameter servers"),)
                yield RULE.problem(servers.span, message, "remove `parameter_server_count`", related=related)
                break
