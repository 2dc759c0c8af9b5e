"""What the processes of an instance share: memory, and files that they write."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from worldsize.azureml.command_line import Word
from worldsize.azureml.fields import read_member
from worldsize.azureml.launch import Launch
from worldsize.azureml.model import Component, Step
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.rules.shared.replicas import read_flag

_SHAPE = re.compile(r"(\d+(?:\.\d+)?) ?[kmgtp]?i?b?", re.IGNORECASE)


def check_shm_size_invalid(context: Tree, subject: Step | Component) -> Iterator[Finding]:
    field = read_member(subject.resources, "shm_size")
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


def check_shm_size_small(context: Tree, launch: Launch) -> Iterator[Finding]:
    flag, processes = read_flag(launch, *_FLAGS), launch.processes.value
    if flag is None or flag[0] < 1 or launch.kind in ("ray", "tensorflow") or processes is None:
        return
    workers = int(flag[0]) * (processes if launch.kind else 1)
    component = launch.step.component
    blocks = [launch.step.resources, component.resources if component else None]
    shm_size = next(filter(None, (read_member(block, "shm_size") for block in blocks)), None)
    size = _bytes(shm_size.value) if shm_size else _DEFAULT
    if size is None or size >= workers * _LEAST:
        return
    span = shm_size.span if shm_size else launch.span(flag[1])
    if span is None:
        return
    name = f"`shm_size` {shm_size.value}" if shm_size else "the default `shm_size` of 2g"
    mebibytes = size / workers / 2**20
    message = f"{name} is {mebibytes:.0f} MiB for each of the {workers} loader workers per instance"
    yield Finding(span, message, f"write `shm_size: {math.ceil(workers / 4)}g`")


def _bytes(text: object) -> float | None:
    match = _WITH_UNIT.fullmatch(text.strip()) if isinstance(text, str) else None
    return float(match[1]) * _UNITS[match[2].lower()] if match and float(match[1]) else None


def check_ranks_share_file(context: Tree, launch: Launch) -> Iterator[Finding]:
    world = launch.world
    if world is None or world < 2:
        return
    for word in _list_written(launch):
        span = launch.span(word)
        alone = launch.processes.value == 1 and "${{outputs." not in word.text  # a file of its own instance
        is_own = word.bare.startswith("/dev/") or "$" in word.text.replace("${{", "")
        if span is not None and not alone and not is_own:
            message = f"each of the {world} processes writes `{word.bare}`"
            yield Finding(
                span, message, f"write `{_with_rank(word.bare, launch.kind)}`, or let one rank write it"
            )


def _list_written(launch: Launch) -> Iterator[Word]:
    for command in launch.commands:
        for operator, target in command.targets:
            if target is not None and ">>" not in operator.text:
                yield target
        words = command.arguments
        if words and words[0].text == "tee" and "-a" not in [word.text for word in words]:
            yield from (word for word in words[1:] if not word.text.startswith("-"))


def _with_rank(path: str, kind: str | None) -> str:
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    rank = "$RANK" if kind == "pytorch" else "$OMPI_COMM_WORLD_RANK"
    return folder + slash + (f"{stem}_{rank}{dot}{suffix}" if dot else f"{name}_{rank}")
