"""Degrees of model parallelism that a native job gives its script as flags."""

from __future__ import annotations

from typing import NamedTuple

from worldsize.azureml import binding
from worldsize.base.span import Span
from worldsize.rules.command_line import Flag
from worldsize.rules.launch import Launch
from worldsize.rules.topology import _launchers

_TENSOR = ("tensor_parallel_size", "tensor_model_parallel_size", "tp_size")
_PIPELINE = ("pipeline_parallel_size", "pipeline_model_parallel_size", "pp_size")


class Degrees(NamedTuple):
    """The two degrees, and where the one to change is written."""

    tensor: int
    pipeline: int
    span: Span | None
    shown: str

    @property
    def product(self) -> int:
        """Ranks that hold one replica of the model."""
        return self.tensor * self.pipeline


def read_degrees(launch: Launch) -> Degrees | None:
    """The degrees of a step; None where nothing is split, or a degree is not known here.

    A program that may start ranks itself (torchrun, or one process for all GPUs) is not judged.
    """
    if not _one_process_a_rank(launch):
        return None
    tensors, pipelines = launch.flags(*_TENSOR), launch.flags(*_PIPELINE)
    tensor, pipeline = _value(launch, tensors), _value(launch, pipelines)
    if tensor is None or pipeline is None or tensor * pipeline == 1:
        return None
    flag = tensors[0] if tensor > 1 else pipelines[0]
    parts = [f"{word} {value}" for word, value in (("tensor", tensor), ("pipeline", pipeline)) if value > 1]
    product = f" = {tensor * pipeline}" if len(parts) > 1 else ""
    return Degrees(tensor, pipeline, _span(launch, flag), " × ".join(parts) + product)


def _one_process_a_rank(launch: Launch) -> bool:
    alone = launch.size is not None and launch.size.devices <= 1
    return (alone or (launch.processes.value or 1) > 1) and not any(_launchers.find_inner_launchers(launch))


def _value(launch: Launch, flags: list[Flag]) -> int | None:
    if not flags:
        return 1
    value = launch.number(flags[0]) if len(flags) == 1 else None
    return int(value) if value is not None and value >= 1 and value == int(value) else None


def _span(launch: Launch, flag: Flag) -> Span | None:
    """Where the number is written: as an input of the step, or in its command."""
    assert flag.value is not None
    expression = binding.parse_expression(flag.value.bare)
    if expression is not None and expression.port:
        argument = launch.step.inputs.get(expression.port)
        return argument.span if argument is not None else None
    return launch.span(flag.value)
