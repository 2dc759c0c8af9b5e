"""The torch or TensorFlow that the environment installs has no code for the GPUs of the VM size.

A build holds machine code for some compute capabilities. Code for 7.0 runs on 7.5, never on 8.0 or on 6.1;
portable code (PTX) runs on newer GPUs only. From 2.11 on, torch as Python's package index serves it is built
for CUDA 13, which has no code for a V100 (7.0); builds for CUDA 12.6 have none for Blackwell (10.0 and 12.0).
Builds for CUDA do not run on AMD's GPUs.

Only versions that are fixed, of builds that are known, are judged: `torch==2.13.0`, `torch==2.13.0+cu126`, an
index of PyTorch's, a curated image such as `acpt-pytorch-2.8-cuda12.6`.

Why: The job starts, and its first operation on a GPU ends in "no kernel image is available for execution on
the device", after the nodes have been allocated and the image built.

Bad::

    instance_type: Standard_ND40rs_v2
    - torch==2.13.0

Good::

    instance_type: Standard_ND40rs_v2
    - torch==2.10.0

Fix: Install the build that the help names, or choose another size.

Source: PyTorch, RELEASE.md, CUDA support matrix; NVIDIA, CUDA GPU compute capability; NVIDIA, CUDA C++
Programming Guide, binary compatibility; ``compiler/worldsize/facts/cuda_builds.csv``.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.topology import _gpu_builds

RULE = Rule(
    "WS270",
    "gpu-without-kernels",
    "error",
    since="0.2.0",
    summary="a build of torch or TensorFlow without code for the GPUs of the size",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _gpu_builds.problems(context, job, RULE.slug)
