"""`NCCL_IB_DISABLE` turns off InfiniBand on a VM size that has it."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.fields import read_member
from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding
from worldsize.base.span import Span
from worldsize.rules.context import Context

_NAME = "NCCL_IB_DISABLE"
_ON = ("1", "true", "True")


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    size, count = launch.size, launch.instances.value
    if size is None or not size.rdma or not size.gpus or count is None or count < 2:
        return
    span = _set_at(launch)
    if span is not None:
        fast = f" instead of {size.ib_gbps_per_node:g} Gb/s InfiniBand" if size.ib_gbps_per_node else ""
        slow = f"{size.ethernet_gbps:g} Gb/s Ethernet" if size.ethernet_gbps else "Ethernet"
        message = f"`{_NAME}` makes {count} instances of `{size.name}` use {slow}{fast}"
        yield Finding(span, message, "remove it")


def _set_at(launch: Launch) -> Span | None:
    variable = read_member(launch.step.environment_variables, _NAME)
    if variable is not None and str(variable.value) in _ON:
        return variable.span
    for command in launch.commands:
        for name, value, word in command.assignments:
            if name == _NAME and value in _ON:
                return launch.span(word)
    return None
