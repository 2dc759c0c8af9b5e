"""More processes are started on an instance than it has GPUs.

``process_count_per_instance`` counts the processes of one instance, not of the job. Giving the
world size is the classic mistake.

Why: Two processes share a GPU, or a process asks for one that is not there: NCCL stops with an
error that names neither number.

Bad::

    process_count_per_instance: 8

Good::

    process_count_per_instance: 4

Fix: Write the number of GPUs of the VM size, or leave it out: it is derived.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Fix, Problem, Related
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.launch import Launch
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS203",
    "processes-exceed-gpus",
    "error",
    since="0.1.0",
    summary="more processes on an instance than it has GPUs",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
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
        yield RULE.problem(given.span, message + world, _help(found), related=related, fix=fix)


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
