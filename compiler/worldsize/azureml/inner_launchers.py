"""Programs inside a step's command that start processes themselves: how many, and on how many nodes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from worldsize.azureml.command_launchers import count_processes, read_launcher_call
from worldsize.azureml.command_line import Command, Word
from worldsize.azureml.launch import Launch
from worldsize.azureml.tree import Tree


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


def read_inner_launchers(tree: Tree, launch: Launch) -> list[Launcher]:
    """The launchers that a step's command starts; once a step."""
    return tree.all_of(_read_inner, launch)


def _read_inner(_tree: Tree, launch: Launch) -> Iterator[Launcher]:
    return find_inner_launchers(launch)


def find_inner_launchers(launch: Launch) -> Iterator[Launcher]:
    """The same for who asks once."""
    for command in launch.commands:
        found = find_launcher(launch, command)
        if found is not None:
            yield found


def find_launcher(launch: Launch, command: Command) -> Launcher | None:
    """The launcher that one command of a step is."""
    call = read_launcher_call(command)
    if call is None:
        return None
    counts = count_processes(
        call,
        launch.read_number,
        devices=launch.size.devices if launch.size is not None else None,
        instances=launch.instances.value,
    )
    return Launcher(
        call.name,
        call.word,
        call.options,
        counts.starts,
        counts.starts_word or call.word,
        counts.nodes,
        counts.nodes_word or call.word,
        call.clear,
        counts.highest,
    )
