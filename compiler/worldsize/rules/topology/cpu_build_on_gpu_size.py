"""A distributed step on a VM size with GPUs installs a build of torch or TensorFlow for CPUs.

Why: The training runs on the CPUs of a size that is paid for its GPUs, or stops where it asks for NCCL.

Bad::

    instance_type: Standard_NC96ads_A100_v4
    - torch==2.10.0+cpu

Good::

    instance_type: Standard_NC96ads_A100_v4
    - torch==2.10.0

Fix: Install a build for CUDA, or choose a size without GPUs.

Source: PyTorch, Start locally: the builds of torch.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.topology import _gpu_builds

RULE = Rule(
    "WS271",
    "cpu-build-on-gpu-size",
    "warning",
    since="0.2.0",
    summary="a build of torch or TensorFlow for CPUs where training has GPUs",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _gpu_builds.problems(context, job, RULE.slug)
