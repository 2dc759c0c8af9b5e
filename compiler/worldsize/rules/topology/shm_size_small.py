"""Each data loader worker has less than 64 MiB of shared memory."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from worldsize.azureml.command_line import Word
from worldsize.azureml.fields import read_member
from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding
from worldsize.rules.context import Context

_FLAGS = ("num_workers", "workers", "dataloader_num_workers", "num_loader_workers", "loader_workers")
_SHAPE = re.compile(r"(\d+(?:\.\d+)?) ?([bkmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_DEFAULT = 2 * 2**30
_LEAST = 64 * 2**20  # bytes a worker


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    flags = launch.flags(*_FLAGS)
    per_process = launch.number(flags[0]) if len(flags) == 1 else None
    if (
        per_process is None
        or per_process < 1
        or launch.kind in ("ray", "tensorflow")
        or launch.processes.value is None
    ):
        return
    workers = int(per_process) * (launch.processes.value if launch.kind else 1)
    yield from _judge(launch, workers, flags[0].value or flags[0].word)


def _judge(launch: Launch, workers: int, word: Word) -> Iterator[Finding]:
    component = launch.step.component
    shm_size = read_member(launch.step.resources, "shm_size") or read_member(
        component.resources if component else None, "shm_size"
    )
    size = _bytes(shm_size.value) if shm_size else _DEFAULT
    if size is None or size >= workers * _LEAST:
        return
    span = shm_size.span if shm_size else launch.span(word)
    if span is None:
        return
    name = f"`shm_size` {shm_size.value}" if shm_size else "the default `shm_size` of 2g"
    mebibytes = size / workers / 2**20
    message = f"{name} is {mebibytes:.0f} MiB for each of the {workers} loader workers per instance"
    yield Finding(span, message, f"write `shm_size: {math.ceil(workers / 4)}g`")


def _bytes(text: object) -> float | None:
    match = _SHAPE.fullmatch(text.strip()) if isinstance(text, str) else None
    return float(match[1]) * _UNITS[match[2].lower()] if match and float(match[1]) else None
