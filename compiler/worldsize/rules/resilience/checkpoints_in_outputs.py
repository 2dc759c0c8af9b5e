"""Checkpoints are written to `./outputs` instead of a mounted output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from worldsize.azureml import command_line
from worldsize.azureml.command_line import Word
from worldsize.azureml.model import Step
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context

_OPTION = re.compile(r"--?[\w-]+")
_KEPT = re.compile(r"checkpoint|ckpt", re.IGNORECASE)
_PATH = re.compile(r"(?P<quote>[\"']?)(?P<path>(?:\./)?outputs(?:/[\w./-]*)?)(?P=quote)", re.IGNORECASE)


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    command = step.component.command if step.component else None
    node = command.node if command is not None else None
    if isinstance(node, Scalar):
        yield from context.all_of(_judge, node)  # steps of one component share its command


def _judge(_context: Context, node: Scalar) -> Iterator[Finding]:
    for option, value in _options(node.text):
        match = _PATH.fullmatch(value.text) if _KEPT.search(option) else None
        if match is None:
            continue
        message = f"checkpoints go to `{match['path']}`, which a restarted or resubmitted job does not see"
        help_ = f"declare an output and write `{option} ${{{{outputs.checkpoints}}}}`"
        start, end = match.span("path")
        yield Finding(node.subspan(value.start + start, value.start + end), message, help_)


def _options(text: str) -> Iterator[tuple[str, Word]]:
    """Options of either number of dashes, with the word behind each."""
    for command in command_line.parse_commands(text):
        for word, after in zip_longest(command.words, command.words[1:]):
            option, equals, value = word.text.partition("=")
            if _OPTION.fullmatch(option) is None:
                continue
            if equals:
                yield option, Word(value, word.start + len(option) + 1, word.end)
            elif after is not None:
                yield option, after
