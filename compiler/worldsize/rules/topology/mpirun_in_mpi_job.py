"""The command of an MPI job runs `mpirun` or `horovodrun` itself."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.launch import read_launches
from worldsize.rules.topology import _launchers


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for launch in read_launches(context, job):
        if launch.kind != "mpi" or launch.world == 1:
            continue
        for inner in _launchers.find_inner_launchers(launch):
            span = launch.span(inner.word)
            if inner.name in _launchers.MPI and span is not None:
                already = f" {launch.world} times" if launch.world is not None else " once a process"
                message = (
                    f"`{inner.name}` inside an mpi job: Azure ML already starts the command{already} with MPI"
                )
                yield Finding(span, message, f"write the command without `{inner.name}` and its options")
