"""More processes per instance than GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from worldsize.azureml import command_launchers, fields
from worldsize.azureml.launch import STARTS_PROCESSES, Launch, find_inner_launchers
from worldsize.base.problem import Finding, Fix, Related
from worldsize.base.span import Span
from worldsize.base.wording import plural
from worldsize.rules.context import Context

_NAME = "CUDA_VISIBLE_DEVICES"
_NUMBERS = re.compile(r"(?:-?\d+(?:,-?\d+)*)?")


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    yield from _check_launchers(launch)
    processes, size = launch.processes, launch.size
    visible = find_visible_devices(launch)
    if launch.kind in STARTS_PROCESSES and visible is not None and processes.value is not None:
        exceeds = visible.count < processes.value <= (size.devices if size is not None else processes.value)
        if exceeds and processes.value > 1:
            yield _report_hidden(visible, processes.value, processes.span)
    if launch.kind not in STARTS_PROCESSES or size is None or not size.devices:
        return
    if processes.value is None or processes.span is None or processes.value <= size.devices:
        return
    gpus = plural(size.devices, "GPU")
    message = f"`process_count_per_instance` is {processes.value} but `{size.name}` has {gpus}"
    related = (Related(launch.size_span, f"{gpus} per instance"),) if launch.size_span else ()
    nodes = _nodes_wanted(launch, processes.value, size.devices)
    keeps_world = launch.instances.value and processes.value == launch.instances.value * size.devices
    fix = None if nodes else Fix(processes.span, str(size.devices), safe=bool(keeps_world))
    help_ = _help(launch, processes.value, size.devices, nodes)
    yield Finding(
        processes.span, message + _world(launch, processes.value, size.devices), help_, related, fix
    )


def _report_hidden(visible: Visible, starts: int, span: Span | None) -> Finding:
    message = (
        f"`CUDA_VISIBLE_DEVICES` shows {plural(visible.count, 'GPU')} to {starts} processes of an instance"
    )
    related = (Related(span, plural(starts, "process")),) if span is not None else ()
    return Finding(visible.span, message, "leave it out: each process takes its own GPU", related=related)


def _check_launchers(launch: Launch) -> Iterator[Finding]:
    """A launcher that starts too many processes; another rule reports one inside several processes."""
    size, outer = launch.size, launch.processes.value if launch.kind in STARTS_PROCESSES else 1
    if size is None or not size.devices or outer != 1:
        return
    for inner in find_inner_launchers(launch):
        span = launch.span(inner.starts_word)
        if inner.name in command_launchers.MPI or inner.starts is None or span is None:
            continue
        visible = find_visible_devices(launch)
        if visible is not None and visible.count < inner.starts <= size.devices:
            yield _report_hidden(visible, inner.starts, span)
            continue
        highest = inner.highest or 0
        if inner.starts <= size.devices > highest:
            continue
        if inner.starts <= size.devices:
            numbers = f"0 to {size.devices - 1}" if size.devices > 1 else "0"
            message = f"`--include` names GPU {highest}, but `{size.name}` has only {numbers}"
            yield Finding(span, message, f"name GPUs {numbers}")
            continue
        gpus = plural(size.devices, "GPU")
        message = f"`{inner.name}` starts {inner.starts} processes per instance but `{size.name}` has {gpus}"
        related = (Related(launch.size_span, f"{gpus} per instance"),) if launch.size_span else ()
        yield Finding(span, message, f"start {size.devices}, one process per GPU", related=related)


def _world(launch: Launch, count: int, devices: int) -> str:
    """Explain the classic mistake: the world size in place of the processes of an instance."""
    instances = launch.instances.value
    if instances is None or instances == 1 or count != instances * devices:
        return ""
    return f": {count} is the world size of all {instances} instances"


def _nodes_wanted(launch: Launch, count: int, devices: int) -> int | None:
    """The number of instances that would have as many GPUs, if the job does not set one."""
    return count // devices if launch.instances.field is None and count % devices == 0 else None


def _help(launch: Launch, count: int, devices: int, nodes: int | None) -> str:
    instances = launch.instances.value
    if nodes:
        return f"write {devices}, and `instance_count: {nodes}` for {count} processes"
    if count % 8 == 0 and devices < 8 and instances == 1:
        return f"write {devices}, or choose a size with 8 GPUs"
    total = f": {instances} × {devices} processes" if instances else ""
    return f"write {devices}, one process per GPU{total}"


class Visible(Struct):
    """How many GPUs the processes can see, and where that is written."""

    count: int
    span: Span


def find_visible_devices(launch: Launch) -> Visible | None:
    """Read the variable; None if it is not set, set more than once, or not a list of numbers."""
    entry = fields.read_entries(launch.step.environment_variables).get(_NAME)
    settings = [(str(entry.value), entry.span)] if entry is not None else []
    for command in launch.commands:
        for name, value, word in command.assignments:
            if name == _NAME:
                settings.append(
                    (value, launch.span(word) if _is_for_all(launch, command.words[0].text) else None)
                )
    if len(settings) != 1 or settings[0][1] is None:
        return None
    text, span = settings[0][0].replace(" ", ""), settings[0][1]
    if _NUMBERS.fullmatch(text) is None:
        return None
    numbers = [int(number) for number in text.split(",") if number]
    hidden = next((position for position, number in enumerate(numbers) if number < 0), len(numbers))
    return Visible(hidden, span)


def _is_for_all(launch: Launch, first: str) -> bool:
    return first == "export" or len(launch.commands) == 1
