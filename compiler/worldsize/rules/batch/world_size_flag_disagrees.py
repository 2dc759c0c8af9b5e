"""The command gives a world size that is not the number of processes that Azure ML starts.

Azure ML sets WORLD_SIZE to `instance_count` × `process_count_per_instance`. A number of instances is
accepted too, as some scripts mean that.

Why: Processes wait for ranks that never start, or leave out those above the number.

Bad::

    command: python -m training.train --world-size 8

Good::

    command: python -m training.train --world-size 16

Fix: Remove the flag and read WORLD_SIZE, or write the product.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS308",
    "world-size-flag-disagrees",
    "warning",
    since="0.1.0",
    summary="a world size in the command that is not the job's",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        world, nodes = found.world, found.instances.value
        flags = found.flags("world_size")
        if world is None or len(flags) != 1 or flags[0].value is None:
            continue
        given = found.number(flags[0])
        if given is None or given in (world, nodes) or given < 1:
            continue
        span = found.span(flags[0].value)
        if span is None:
            continue
        product = f"{nodes} × {found.processes.value}"
        flag = flags[0].word.text.partition("=")[0]
        message = f"`{flag}` is {given:g} but {world} processes start ({product})"
        yield RULE.problem(span, message, f"write {world}, or remove it and read `WORLD_SIZE`")
