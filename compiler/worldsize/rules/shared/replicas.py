"""How many processes hold one replica of the model, and how many share a global batch."""

from __future__ import annotations

from typing import NamedTuple

from worldsize.azureml import binding, literals
from worldsize.azureml.command_line import Word
from worldsize.azureml.launch import Launch, find_inner_launchers, read_input
from worldsize.base.span import Span

_TENSOR = ("tensor_parallel_size", "tensor_model_parallel_size", "tp_size")
_PIPELINE = ("pipeline_parallel_size", "pipeline_model_parallel_size", "pp_size")
_OTHER = ("model_parallel_size", "context_parallel_size", "expert_parallel_size")


def count_replicas(launch: Launch) -> int | None:
    """The processes that share a batch; None if unknown or if the model itself is split."""
    if any(launch.number(flag) != 1 for flag in launch.flags(*_TENSOR, *_PIPELINE, *_OTHER)):
        return None
    return count_processes(launch)


def count_processes(launch: Launch) -> int | None:
    """All processes of a step, also those that a launcher in its command starts; None if unknown."""
    inner = list(find_inner_launchers(launch))
    if len(inner) > 1 or any(launcher.starts is None for launcher in inner):
        return None
    outer = launch.world
    if launch.kind is None and launch.instances.value == 1:
        outer = 1
    return outer * (inner[0].starts or 1) if inner and outer is not None else outer


def count_split_replicas(launch: Launch) -> int | None:
    """The replicas of a model that tensor and pipeline degrees split; None if it is split in another way."""
    degrees, world = read_degrees(launch), launch.world
    if degrees is None or world is None or world % degrees.product:
        return None
    if any(launch.number(flag) != 1 for flag in launch.flags(*_OTHER)):
        return None
    return world // degrees.product


def read_flag(launch: Launch, *names: str) -> tuple[float, Word] | None:
    """The number that the only flag of these names has, and where; None if there are several or none."""
    flags = launch.flags(*names)
    number = launch.number(flags[0]) if len(flags) == 1 else None
    return None if number is None or flags[0].value is None else (number, flags[0].value)


class Degrees(NamedTuple):
    """The two degrees, and where the one to change is written."""

    tensor: int
    pipeline: int
    span: Span

    @property
    def product(self) -> int:
        """Ranks that hold one replica of the model."""
        return self.tensor * self.pipeline


def read_degrees(launch: Launch) -> Degrees | None:
    """The degrees of a step; None if nothing is split or a degree is unknown.

    A program that may start ranks itself (torchrun, or one process for all GPUs) is not judged.
    """
    if not _one_process_a_rank(launch):
        return None
    tensor, pipeline = _value(launch, _TENSOR), _value(launch, _PIPELINE)
    if tensor is None or pipeline is None or tensor * pipeline == 1:
        return None
    span = _span(launch, _TENSOR if tensor > 1 else _PIPELINE)
    return Degrees(tensor, pipeline, span) if span is not None else None


def _one_process_a_rank(launch: Launch) -> bool:
    alone = launch.size is not None and launch.size.devices <= 1
    return (alone or (launch.processes.value or 1) > 1) and not any(find_inner_launchers(launch))


def _value(launch: Launch, names: tuple[str, ...]) -> int | None:
    component = launch.step.component
    value: float | None
    if launch.flags(*names):
        flag = read_flag(launch, *names)
        value = flag[0] if flag is not None else None
    elif names[0] in launch.step.inputs or (component is not None and names[0] in component.inputs):
        value = literals.parse_number(read_input(launch, names[0]))
    else:
        return 1
    return int(value) if value is not None and value >= 1 and value == int(value) else None


def _span(launch: Launch, names: tuple[str, ...]) -> Span | None:
    """The place of the number: an input of the step, its command, or the source of the plan."""
    flags, port = launch.flags(*names), names[0]
    if flags and flags[0].value is not None:
        expression = binding.parse_expression(flags[0].value.bare)
        if expression is None or not expression.port:
            return launch.span(flags[0].value)
        port = expression.port
    argument = launch.step.inputs.get(port)
    if argument is None:
        return None
    return argument.span or next(iter(argument.sources), None)
