"""Programs inside a command that start processes themselves: how many, and on how many nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from msgspec import Struct

from worldsize.rules.command_line import Command, Word
from worldsize.rules.context import Context
from worldsize.rules.launch import Launch

MPI = frozenset({"mpirun", "mpiexec", "horovodrun", "orterun"})
TORCH = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
_PROGRAMS = frozenset({*MPI, "torchrun", "deepspeed"})
_MODULES = {
    "torch.distributed.run": "torch.distributed.run",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate.commands.launch": "accelerate launch",
    "deepspeed.launcher.runner": "deepspeed",
}
_INCLUDE = re.compile(r"[\w.-]+:(\d+(?:,\d+)*)")
_PER_INSTANCE = ("nproc_per_node", "num_gpus")
_IN_ALL = ("num_processes", "np", "n")  # of accelerate and of mpirun
_NODES = ("nnodes", "num_machines", "num_nodes")


class Launcher(Struct):
    """One such program."""

    name: str
    word: Word
    options: dict[str, tuple[Word, Word | None]]  # its own, by their names without dashes: flag and value
    starts: int | None  # processes on an instance; None where that is not written
    starts_word: Word
    nodes: int | None  # None where it is not written, or may vary
    nodes_word: Word
    clear: bool = True  # no other options come from a variable
    highest: int | None = None  # the greatest number of a GPU that `--include` names


def read_inner_launchers(context: Context, launch: Launch) -> list[Launcher]:
    """The launchers that a step's command starts; once a step."""
    return context.all_of(_read_inner, launch)


def _read_inner(_context: Context, launch: Launch) -> Iterator[Launcher]:
    return find_inner_launchers(launch)


def find_inner_launchers(launch: Launch) -> Iterator[Launcher]:
    """The same for who asks once."""
    for command in launch.commands:
        found = find_launcher(launch, command)
        if found is not None:
            yield found


def find_launcher(launch: Launch, command: Command) -> Launcher | None:
    """The launcher that one command of a step is."""
    named = _launcher(command)
    return _read(launch, command, *named) if named is not None else None


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


def _read(launch: Launch, command: Command, name: str, word: Word) -> Launcher:
    options, clear = _read_options(command, word)
    nodes, nodes_word = _count(launch, options, _NODES)
    starts, starts_word = _count(launch, options, _PER_INSTANCE)
    if starts_word is None and name not in TORCH:
        starts, starts_word = _count(launch, options, _IN_ALL)
        share = launch.instances.value if name in MPI else nodes or (None if nodes_word else 1)
        starts = starts // share if starts is not None and share and starts % share == 0 else None
    if name in TORCH and clear:  # one of each is their default
        nodes, starts = nodes if nodes_word else 1, starts if starts_word else 1
    launcher = Launcher(name, word, options, starts, starts_word or word, nodes, nodes_word or word, clear)
    _read_include(launcher)
    return launcher


def _read_include(launcher: Launcher) -> None:
    """`--include localhost:0,1` of DeepSpeed: so many processes, on these GPUs."""
    value = launcher.options.get("include", (None, None))[1]
    match = _INCLUDE.fullmatch(value.bare) if value is not None else None
    if launcher.name != "deepspeed" or match is None or value is None:
        return
    numbers = [int(number) for number in match[1].split(",")]
    launcher.starts, launcher.starts_word, launcher.highest = len(numbers), value, max(numbers)


def _read_options(command: Command, word: Word) -> tuple[dict[str, tuple[Word, Word | None]], bool]:
    """The options before what the launcher starts, and whether those are all."""
    words = list(command.arguments[command.arguments.index(word) + 1 :])
    options: dict[str, tuple[Word, Word | None]] = {}
    value: Word | None = None
    clear = True
    for each, after in zip_longest(words, words[1:]):
        if each.bare.endswith(".py") or each.bare.startswith("python") or each.text in ("-m", "--module"):
            break
        if each.text.startswith("-"):
            name, equals, text = each.text.partition("=")
            value = Word(text, each.start + len(name) + 1, each.end, each.source) if equals else after
            options.setdefault(name.lstrip("-").replace("-", "_"), (each, value))
        elif each is not value and "$" in each.text:
            clear = False
    return options, clear


def _count(
    launch: Launch, options: dict[str, tuple[Word, Word | None]], names: tuple[str, ...]
) -> tuple[int | None, Word | None]:
    """The number of the first of these options, and where it stands; `1:4` may be any."""
    for name in names:
        flag, value = options.get(name, (None, None))
        if flag is None or value is None:
            continue
        if value.bare in ("gpu", "auto"):
            return (launch.size.devices or None) if launch.size is not None else None, value
        number = launch.read_number(value.bare)
        return int(number) if number is not None and number >= 1 else None, value
    return None, None
