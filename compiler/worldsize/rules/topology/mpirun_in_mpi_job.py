"""The command of an mpi job starts `mpirun` or `horovodrun` itself.

With `distribution: {type: mpi}` Azure ML writes the `mpirun` line around the command and starts it once a
process.

Why: Every process tries to start an MPI job of its own: the job fails, or trains as many models as there
are processes.

Bad::

    command: mpirun -np 8 python -m training.train

Good::

    command: python -m training.train

Fix: Write the Python command alone; the processes are `instance_count` × `process_count_per_instance`.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.topology import _launchers

RULE = Rule(
    "WS216",
    "mpirun-in-mpi-job",
    "error",
    since="0.1.0",
    summary="`mpirun` inside a job that Azure ML already starts by MPI",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        if found.kind != "mpi" or found.world == 1:
            continue
        for inner in _launchers.inside(found):
            span = found.span(inner.word)
            if inner.name in _launchers.MPI and span is not None:
                already = f" {found.world} times" if found.world is not None else " once a process"
                message = (
                    f"`{inner.name}` inside an mpi job: Azure ML already starts the command{already} by MPI"
                )
                yield RULE.problem(span, message, f"write the command without `{inner.name}` and its options")
