"""An MPI job uses an image without an MPI library."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.fields import read_member
from worldsize.azureml.launch import Launch
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Finding
from worldsize.rules.context import Context

_WITHOUT = compile_later(
    r"(?:docker\.io/)?(?:library/)?(?:python|ubuntu|debian|continuumio/\w+|nvidia/cuda|pytorch/pytorch|"
    r"tensorflow/tensorflow|mcr\.microsoft\.com/azureml/minimal[\w.-]*)(?::.*)?"
)


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    environment = launch.step.component.environment if launch.step.component else None
    image = read_member(environment, "image")
    if (
        launch.kind != "mpi"
        or image is None
        or image.span is None
        or read_member(environment, "build") is not None
    ):
        return
    if (
        isinstance(image.value, str)
        and _WITHOUT.fullmatch(image.value)
        and read_member(environment, "conda_file") is None
    ):
        message = f"`type: mpi` needs an image with MPI, but `{image.value}` has none"
        yield Finding(
            image.span,
            message,
            "use an image such as `mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04`",
        )
