"""A command that Azure ML starts several times per instance contains a launcher."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Related
from worldsize.base.wording import plural
from worldsize.rules.context import Context
from worldsize.rules.launch import STARTS_PROCESSES, read_launches
from worldsize.rules.topology import _launchers


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for launch in read_launches(context, job):
        outer = launch.processes.value
        if launch.kind not in STARTS_PROCESSES or outer is None or outer < 2:
            continue
        for inner in _launchers.find_inner_launchers(launch):
            span = launch.span(inner.word)
            if span is None or (launch.kind == "mpi" and inner.name in _launchers.MPI):
                continue
            each = plural(inner.starts, "process") if inner.starts else "processes"
            total = f": {outer * inner.starts} per instance" if inner.starts and inner.starts > 1 else ""
            message = f"`{inner.name}` starts {each} in each of the {outer} that Azure ML starts{total}"
            related = (
                (Related(launch.processes.span, "started by Azure ML"),) if launch.processes.span else ()
            )
            help_ = f"set `process_count_per_instance: 1`, or write `python` instead of `{inner.name}`"
            yield Finding(span, message, help_, related=related)
