"""Programs inside a command that start processes themselves, and how many."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from worldsize.rules.command_line import Command, Word
from worldsize.rules.launch import Launch

MPI = frozenset({"mpirun", "mpiexec", "horovodrun", "orterun"})
_PROGRAMS = frozenset({*MPI, "torchrun", "deepspeed"})
_MODULES = {
    "torch.distributed.run": "torch.distributed.run",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate.commands.launch": "accelerate launch",
    "deepspeed.launcher.runner": "deepspeed",
}
_COUNT_FLAGS = ("nproc_per_node", "num_gpus", "num_processes")
_SHORT = ("-np", "-n")


class Launcher(NamedTuple):
    """One such program: ``starts`` is what it starts on an instance, None where that is not written."""

    name: str
    word: Word
    starts: int | None


def find_inner_launchers(launch: Launch) -> Iterator[Launcher]:
    """The launchers that a step's command starts."""
    for command in launch.commands:
        launcher = _launcher(command)
        if launcher is not None:
            yield Launcher(*launcher, _count(command, launch, mpi=launcher[0] in MPI))


def _launcher(command: Command) -> tuple[str, Word] | None:
    words = command.arguments
    if not words:
        return None
    program = words[0].bare.rpartition("/")[2]
    if program in _PROGRAMS:
        return program, words[0]
    second = words[1].text if len(words) > 1 else ""
    if program == "accelerate" and second == "launch":
        return "accelerate launch", words[0]
    if program.startswith("python") and second == "-m" and len(words) > 2 and words[2].text in _MODULES:
        return _MODULES[words[2].text], words[2]
    return None


def _count(command: Command, launch: Launch, *, mpi: bool) -> int | None:
    for flag in command.flags():
        if flag.name in _COUNT_FLAGS and flag.value is not None:
            if flag.value.bare in ("gpu", "auto"):
                return launch.size.devices if launch.size is not None and launch.size.devices else None
            value = launch.number(flag)
            return int(value) if value is not None and value >= 1 else None
    words = command.arguments
    for word, after in pairwise(words):
        if mpi and word.text in _SHORT and after.text.isdigit():
            return int(after.text)
    return None
