"""The command of a distributed step writes one file, and every process runs the command.

A redirection or `tee` opens the file anew in each process.

Why: The processes overwrite each other, and what is left of the log is nobody's.

Bad::

    python -m training.train > ${{outputs.logs}}/train.log

Good::

    python -m training.train > ${{outputs.logs}}/train_$RANK.log

Fix: Put `$RANK` into the name, or remove the redirection: Azure ML keeps one log a process in
`user_logs`.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules import launch
from worldsize.rules.command_line import Word
from worldsize.rules.context import Context
from worldsize.rules.launch import Launch
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS228", "ranks-share-file", "warning", since="0.1.0", summary="one file that every process writes"
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        world = found.world
        if world is None or world < 2:
            continue
        for word in _written(found):
            span = found.span(word)
            alone = (
                found.processes.value == 1 and "${{outputs." not in word.text
            )  # a file of its own instance
            if span is not None and not alone and not _own(word):
                message = f"each of the {world} processes writes `{word.bare}` anew"
                yield RULE.problem(
                    span, message, f"write `{_with_rank(word.bare, found.kind)}`, or let one rank write it"
                )


def _written(found: Launch) -> Iterator[Word]:
    for command in found.commands:
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
