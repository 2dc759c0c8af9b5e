"""A tensor or pipeline degree does not divide the world size.

Tensor × pipeline ranks hold one replica of the model, so their product must divide the number of processes.
In a native job the degrees are read from the flags of the command, such as ``--tensor_parallel_size``.

Why: Some ranks have no place in the mesh; every rank stops at its first collective.

Bad::

    parallelism: {tensor: 3}

Good::

    parallelism: {tensor: 2}

Fix: Write a degree of the help, or change the number of instances.

Source: Megatron-LM, ``megatron/core/parallel_state.py``; PyTorch, ``init_device_mesh``.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.topology import _degrees

RULE = Rule(
    "WS231",
    "degree-does-not-divide",
    "error",
    since="0.1.0",
    summary="degrees of parallelism that do not divide the world size",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        world, said = found.world, _degrees.given(found)
        if not found.native or world is None or said is None or said.span is None:
            continue
        if world % said.product:
            instances, each = found.instances.value, found.processes.value
            message = f"{said.shown} does not divide the world size {world} ({instances} × {each} processes)"
            help_ = f"choose degrees whose product divides {world}, or start a multiple of {said.product}"
            yield RULE.problem(said.span, message, help_)
