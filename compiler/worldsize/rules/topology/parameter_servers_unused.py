"""Parameter servers are started for a script that uses MultiWorkerMirroredStrategy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.rules.launch import read_launches

_MIRRORED = re.compile(r"MultiWorkerMirroredStrategy|CollectiveAllReduceStrategy")


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for launch in read_launches(context, job):
        servers = launch.servers
        if launch.kind != "tensorflow" or not servers.value or servers.span is None:
            continue
        texts = launch.scripts(context)
        if any("ParameterServerStrategy" in source.text for source in texts):
            continue
        for source in texts:
            match = _MIRRORED.search(source.text)
            if match is not None:
                message = f"`parameter_server_count` is {servers.value}, but the script uses {match.group()}"
                related = (Related(source.span(*match.span()), "a strategy without parameter servers"),)
                yield Finding(servers.span, message, "remove `parameter_server_count`", related=related)
                break
