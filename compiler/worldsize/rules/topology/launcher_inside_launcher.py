"""A launcher stands in a command that Azure ML already starts several times on an instance."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Related
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.topology import _launchers


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for found in launch.of(context, job):
        outer = found.processes.value
        if found.kind not in launch.STARTS_PROCESSES or outer is None or outer < 2:
            continue
        for inner in _launchers.inside(found):
            span = found.span(inner.word)
            if span is None or (found.kind == "mpi" and inner.name in _launchers.MPI):
                continue
            each = f"{inner.starts} processes" if inner.starts else "processes"
            total = f": {outer * inner.starts} on an instance" if inner.starts else ""
            message = f"`{inner.name}` starts {each} in each of the {outer} that Azure ML starts{total}"
            related = (Related(found.processes.span, "started by Azure ML"),) if found.processes.span else ()
            help_ = f"set `process_count_per_instance: 1`, or write `python` instead of `{inner.name}`"
            yield Finding(span, message, help_, related=related)
