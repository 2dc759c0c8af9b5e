"""A launcher stands in a command that Azure ML already starts several times on an instance.

Launchers are `torchrun`, `accelerate launch`, `deepspeed` and their like. `process_count_per_instance`
starts the command that many times, and each of them starts processes again.

Why: The product of both shares the GPUs, and every launcher wants the same port.

Bad::

    distribution: {type: pytorch, process_count_per_instance: 4}

Good::

    distribution: {type: pytorch, process_count_per_instance: 1}

Fix: Set `process_count_per_instance` to 1, or start the script with plain `python`.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem, Related
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.topology import _launchers

RULE = Rule(
    "WS217",
    "launcher-inside-launcher",
    "error",
    since="0.1.0",
    summary="a launcher in a command that is already started several times",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
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
            yield RULE.problem(span, message, help_, related=related)
