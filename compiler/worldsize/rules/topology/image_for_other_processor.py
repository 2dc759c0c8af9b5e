"""The image is built for x86-64 processors, and the VM size has Arm ones.

VMs with GB200 and GB300 superchips have NVIDIA's Grace processors, which run `linux/arm64` images only.
Microsoft's images for Azure Machine Learning (`mcr.microsoft.com/azureml/…`) install programs for x86-64.
Only images of that registry are judged, below a version of torch or TensorFlow that is fixed.

Why: The container ends with "exec format error" after the nodes have been allocated.

Bad::

    image: mcr.microsoft.com/azureml/openmpi5.0-cuda12.6-ubuntu24.04:20260715.v1
    instance_type: Standard_ND128isr_NDR_GB200_v6

Good::

    image: mcr.microsoft.com/azureml/openmpi5.0-cuda12.6-ubuntu24.04:20260715.v1
    instance_type: Standard_NC96ads_A100_v4

Fix: Build the environment on an image for `linux/arm64`, or choose a size with x86-64 processors.

Source: Microsoft, ND GB200 v6 and ND GB300 v6 size series; Azure/AzureML-Containers, base images;
``compiler/worldsize/facts/gpu_capabilities.csv``.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.topology import _gpu_builds

RULE = Rule(
    "WS273",
    "image-for-other-processor",
    "error",
    since="0.2.0",
    summary="an image for x86-64 on a VM size with Arm processors",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _gpu_builds.problems(context, job, RULE.slug)
