"""More processes are started on an instance than it has GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Fix, Related
from worldsize.rules.context import Context
from worldsize.rules.launch import STARTS_PROCESSES, Launch, read_launches


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for launch in read_launches(context, job):
        processes, size = launch.processes, launch.size
        if not launch.native or launch.kind not in STARTS_PROCESSES or size is None or not size.devices:
            continue
        if processes.value is None or processes.span is None or processes.value <= size.devices:
            continue
        gpus = f"{size.devices} GPU{'s' * (size.devices != 1)}"
        message = f"`process_count_per_instance` is {processes.value} but `{size.name}` has {gpus}"
        related = (Related(launch.size_span, f"{gpus} an instance"),) if launch.size_span else ()
        world = _world(launch)
        fix = Fix(processes.span, str(size.devices)) if world else None
        yield Finding(processes.span, message + world, _help(launch), related=related, fix=fix)


def _world(launch: Launch) -> str:
    """The classic mistake, said as such."""
    size, count, instances = launch.size, launch.processes.value, launch.instances.value
    assert size is not None
    if instances is None or instances == 1 or count != instances * size.devices:
        return ""
    return f": {count} is the world size of all {instances} instances"


def _help(launch: Launch) -> str:
    size, count, instances = launch.size, launch.processes.value, launch.instances
    assert size is not None
    assert count is not None
    nodes, rest = divmod(count, size.devices)
    if instances.field is None and not rest:
        return f"write {size.devices}, and `instance_count: {nodes}` under `resources` for {count} processes"
    if count % 8 == 0 and size.devices < 8 and instances.value == 1:
        return f"write {size.devices}, or choose a size with 8 GPUs"
    total = f": {instances.value} × {size.devices} processes" if instances.value else ""
    return f"write {size.devices}, one process a GPU{total}"
