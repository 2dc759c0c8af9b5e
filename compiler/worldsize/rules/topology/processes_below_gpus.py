"""Fewer processes per instance than GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.base.problem import Finding, Related
from worldsize.base.wording import plural
from worldsize.rules.context import Context
from worldsize.rules.launch import STARTS_PROCESSES, Launch

# What drives several GPUs from one process, or starts processes itself.
_DRIVES_MORE = re.compile(
    r"torchrun|torch\.distributed\.(?:run|launch)|accelerate|deepspeed|lightning|DataParallel|"
    r"mp\.spawn|multiprocessing|device_map|mpirun|horovodrun|ray|dask|vllm|MirroredStrategy",
    re.IGNORECASE,
)


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    processes, size = launch.processes, launch.size
    if launch.kind not in STARTS_PROCESSES or size is None:
        return
    if processes.value is None or processes.span is None or processes.value >= size.devices:
        return
    if processes.value == 1 and not _plain(context, launch):
        return
    gpus = plural(size.devices, "GPU")
    nodes = launch.instances.value or 1
    idle, total = nodes * (size.devices - processes.value), nodes * size.devices
    message = (
        f"`process_count_per_instance` is {processes.value} but `{size.name}` has {gpus}:"
        f" {idle} of {total} GPUs idle"
    )
    related = (Related(launch.size_span, f"{gpus} per instance"),) if launch.size_span else ()
    yield Finding(processes.span, message, f"write {size.devices}, one process per GPU", related=related)


def _plain(context: Context, launch: Launch) -> bool:
    """Whether one process uses one GPU only: a built-in trainer, or a script that names no other way."""
    component = launch.step.component
    if component is not None and component.path is not None and context.built_in(component.path):
        return True
    command = component.command.value if component and component.command else ""
    if _DRIVES_MORE.search(str(command)):
        return False
    texts = [source.text for source in launch.scripts(context)]
    return bool(texts) and not any(_DRIVES_MORE.search(text) for text in texts)
