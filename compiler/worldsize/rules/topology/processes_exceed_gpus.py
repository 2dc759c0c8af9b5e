"""More processes are started on an instance than it has GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Fix, Related
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.launch import Launch


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for found in launch.of(context, job):
        given, size = found.processes, found.size
        if not found.native or found.kind not in launch.STARTS_PROCESSES or size is None or not size.devices:
            continue
        if given.value is None or given.span is None or given.value <= size.devices:
            continue
        gpus = f"{size.devices} GPU{'s' * (size.devices != 1)}"
        message = f"`process_count_per_instance` is {given.value} but `{size.name}` has {gpus}"
        related = (Related(found.size_span, f"{gpus} an instance"),) if found.size_span else ()
        world = _world(found)
        fix = Fix(given.span, str(size.devices)) if world else None
        yield Finding(given.span, message + world, _help(found), related=related, fix=fix)


def _world(found: Launch) -> str:
    """The classic mistake, said as such."""
    size, count, instances = found.size, found.processes.value, found.instances.value
    assert size is not None
    if instances is None or instances == 1 or count != instances * size.devices:
        return ""
    return f": {count} is the world size of all {instances} instances"


def _help(found: Launch) -> str:
    size, count, instances = found.size, found.processes.value, found.instances
    assert size is not None
    assert count is not None
    nodes, rest = divmod(count, size.devices)
    if instances.field is None and not rest:
        return f"write {size.devices}, and `instance_count: {nodes}` under `resources` for {count} processes"
    if count % 8 == 0 and size.devices < 8 and instances.value == 1:
        return f"write {size.devices}, or choose a size with 8 GPUs"
    total = f": {instances.value} × {size.devices} processes" if instances.value else ""
    return f"write {size.devices}, one process a GPU{total}"
