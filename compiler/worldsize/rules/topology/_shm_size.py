"""The shared memory of a step: its size is not valid, or small for the workers of data loaders."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from worldsize.azureml import fields
from worldsize.azureml.command_line import Word
from worldsize.azureml.fields import read_member
from worldsize.azureml.launch import Launch
from worldsize.azureml.model import Component, Field, Step
from worldsize.base.problem import Finding
from worldsize.rules.context import Context

_SHAPE = re.compile(r"(\d+(?:\.\d+)?) ?[kmgtp]?i?b?", re.IGNORECASE)


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    yield from _judge(step.resources)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    yield from _judge(component.resources)


def _judge(resources: Field[Any] | None) -> Iterator[Finding]:
    field = fields.read_member(resources, "shm_size")
    if field is None or field.span is None or not isinstance(field.value, str) or "${{" in field.value:
        return
    match = _SHAPE.fullmatch(field.value.strip())
    if match is None:
        message = f"`shm_size` is `{field.value}`, which is not a number with a unit"
    elif not float(match[1]):
        message = f"`shm_size` is `{field.value}`: no shared memory at all"
    else:
        return
    yield Finding(field.span, message, "write a number and `b`, `k`, `m` or `g`, for example `16g`")


_FLAGS = ("num_workers", "workers", "dataloader_num_workers", "num_loader_workers", "loader_workers")
_WITH_UNIT = re.compile(r"(\d+(?:\.\d+)?) ?([bkmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_DEFAULT = 2 * 2**30
_LEAST = 64 * 2**20  # bytes a worker


def check_shm_size_small(context: Context, launch: Launch) -> Iterator[Finding]:
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
    yield from _judge_workers(launch, workers, flags[0].value or flags[0].word)


def _judge_workers(launch: Launch, workers: int, word: Word) -> Iterator[Finding]:
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
    match = _WITH_UNIT.fullmatch(text.strip()) if isinstance(text, str) else None
    return float(match[1]) * _UNITS[match[2].lower()] if match and float(match[1]) else None
