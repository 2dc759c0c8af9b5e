"""A command that Azure ML starts several times per instance contains a launcher."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import command_launchers
from worldsize.azureml.launch import STARTS_PROCESSES, Launch, find_inner_launchers
from worldsize.base.problem import Finding, Related
from worldsize.base.wording import plural
from worldsize.rules.context import Context


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    outer = launch.processes.value
    if launch.kind not in STARTS_PROCESSES or outer is None or outer < 2:
        return
    for inner in find_inner_launchers(launch):
        span = launch.span(inner.word)
        if span is None or (launch.kind == "mpi" and inner.name in command_launchers.MPI):
            continue
        processes = plural(inner.starts, "process") if inner.starts else "processes"
        total = f": {outer * inner.starts} per instance" if inner.starts and inner.starts > 1 else ""
        message = f"`{inner.name}` starts {processes} in each of the {outer} that Azure ML starts{total}"
        related = (Related(launch.processes.span, "started by Azure ML"),) if launch.processes.span else ()
        help_ = f"set `process_count_per_instance: 1`, or write `python` instead of `{inner.name}`"
        yield Finding(span, message, help_, related=related)
