"""Every process of a distributed step writes the same file."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.command_line import Word
from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding
from worldsize.rules.context import Context


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    world = launch.world
    if world is None or world < 2:
        return
    for word in _written(launch):
        span = launch.span(word)
        alone = launch.processes.value == 1 and "${{outputs." not in word.text  # a file of its own instance
        if span is not None and not alone and not _own(word):
            message = f"each of the {world} processes writes `{word.bare}`"
            yield Finding(
                span, message, f"write `{_with_rank(word.bare, launch.kind)}`, or let one rank write it"
            )


def _written(launch: Launch) -> Iterator[Word]:
    for command in launch.commands:
        for operator, target in command.targets:
            if target is not None and ">>" not in operator.text:
                yield target
        words = command.arguments
        if words and words[0].text == "tee" and "-a" not in [word.text for word in words]:
            yield from (word for word in words[1:] if not word.text.startswith("-"))


def _own(word: Word) -> bool:
    return word.bare.startswith("/dev/") or "$" in word.text.replace("${{", "")


def _with_rank(path: str, kind: str | None) -> str:
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    rank = "$RANK" if kind == "pytorch" else "$OMPI_COMM_WORLD_RANK"
    return folder + slash + (f"{stem}_{rank}{dot}{suffix}" if dot else f"{name}_{rank}")
