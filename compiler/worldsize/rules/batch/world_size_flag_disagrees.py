"""The command sets a world size that is not the number of processes."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.shared import replicas as _replicas


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    world, nodes = _replicas.count_processes(launch), launch.instances.value
    flags = launch.flags("world_size")
    if world is None or len(flags) != 1 or flags[0].value is None:
        return
    flag_value = launch.number(flags[0])
    if flag_value is None or flag_value in (world, nodes) or flag_value < 1:
        return
    span = launch.span(flags[0].value)
    if span is None:
        return
    product = f"{nodes} × {world // (nodes or 1)}"
    flag = flags[0].word.text.partition("=")[0]
    message = f"`{flag}` is {flag_value:g} but {world} processes start ({product})"
    yield Finding(span, message, f"write {world}, or remove it and read `WORLD_SIZE`")
