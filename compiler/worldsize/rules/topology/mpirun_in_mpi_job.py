"""The command of an MPI job runs `mpirun` or `horovodrun` itself."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import command_launchers
from worldsize.azureml.launch import Launch, find_inner_launchers
from worldsize.base.problem import Finding
from worldsize.rules.context import Context


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    if launch.kind != "mpi" or launch.world == 1:
        return
    for inner in find_inner_launchers(launch):
        span = launch.span(inner.word)
        if inner.name in command_launchers.MPI and span is not None:
            already = f" {launch.world} times" if launch.world is not None else " once per process"
            message = f"`{inner.name}` in an MPI job: Azure ML already starts the command{already} with MPI"
            yield Finding(span, message, f"write the command without `{inner.name}` and its options")
