"""Ranks that share each layer lie on several instances.

Tensor parallelism exchanges activations in every layer, forwards and backwards, so its ranks belong on one
instance, where NVLink or PCIe joins them. Rates are the vendors' peaks for one GPU, in one direction. In a
native job the degree is read from the flags of the command.

Why: Every layer waits for the network, which is several times slower.

Bad::

    parallelism: {tensor: 8}

Good::

    parallelism: {tensor: 4, pipeline: 2}

Fix: Keep the tensor degree to the GPUs of an instance, and split further by pipeline or data.

Source: Narayanan et al. 2021 (arXiv:2104.04473), section 3.2; VM sizes of Microsoft Learn.
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
    "WS234",
    "tensor-parallel-across-instances",
    "warning",
    since="0.1.0",
    summary="tensor parallelism over the network",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        said, world = _degrees.given(found), found.world
        processes, instances = found.processes.value, found.instances.value
        if not found.native or said is None or world is None or processes is None or instances is None:
            continue
        if said.span is None or world % said.product:
            continue
        from worldsize.planning import across  # noqa: PLC0415 - only a job with such a degree needs it

        if across.crosses(said.tensor, processes, instances) and not across.joined(found.size):
            message = across.message(said.tensor, processes, found.size)
            yield RULE.problem(
                said.span, message, across.remedy(said.tensor, processes, world // said.pipeline)
            )
