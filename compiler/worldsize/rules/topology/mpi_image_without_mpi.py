"""An mpi job runs in an image that has no MPI library.

Azure ML starts the command by the `mpirun` of the image. Only images that are known to have none are
reported, and only where no conda file adds one.

Why: The job fails on every instance before its first line of Python.

Bad::

    environment: {image: python:3.11}

Good::

    environment: {image: mcr.microsoft.com/azureml/openmpi4.1.0-cuda11.8-cudnn8-ubuntu22.04:20250601.v1}

Fix: Use an image with `openmpi` in its name, or `type: pytorch` where the script does not need MPI.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.distribution import member
from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS221", "mpi-image-without-mpi", "error", since="0.1.0", summary="an mpi job in an image that has no MPI"
)


_WITHOUT = re.compile(
    r"(?:docker\.io/)?(?:library/)?(?:python|ubuntu|debian|continuumio/\w+|nvidia/cuda|pytorch/pytorch|"
    r"tensorflow/tensorflow|mcr\.microsoft\.com/azureml/minimal[\w.-]*)(?::.*)?"
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        environment = found.step.component.environment if found.step.component else None
        image = member(environment, "image")
        if (
            found.kind != "mpi"
            or image is None
            or image.span is None
            or member(environment, "build") is not None
        ):
            continue
        if (
            isinstance(image.value, str)
            and _WITHOUT.fullmatch(image.value)
            and member(environment, "conda_file") is None
        ):
            message = f"`type: mpi` needs an image with MPI, and `{image.value}` has none"
            yield RULE.problem(
                image.span,
                message,
                "use an image such as `mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04`",
            )
