"""The CUDA of the environment's torch wants a newer driver than Azure ML's nodes of the size had.

A container brings CUDA's libraries and uses the driver of its node. CUDA 12 runs on driver 525 and newer,
CUDA 13 on 580 and newer. Images for CUDA 13 such as Azure ML's own bring the libraries by which it runs on
older drivers of data-centre GPUs; a wheel does not.

Drivers are known for few sizes, as of a day that the message names; other sizes are not judged.

Why: `torch.cuda.is_available()` is false ("the NVIDIA driver on your system is too old"), and training stops,
or goes on without the GPUs.

Bad::

    instance_type: Standard_NC96ads_A100_v4
    - torch==2.13.0

Good::

    instance_type: Standard_NC96ads_A100_v4
    - --extra-index-url https://download.pytorch.org/whl/cu126
    - torch==2.13.0+cu126

Fix: Install the build that the help names.

Source: NVIDIA, CUDA compatibility, minor version compatibility; Azure/azureml-assets, pull request 5287.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.topology import _gpu_builds

RULE = Rule(
    "WS272",
    "cuda-driver-too-old",
    "warning",
    since="0.2.0",
    summary="a CUDA that wants a newer driver than the nodes of the size had",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _gpu_builds.problems(context, job, RULE.slug)
