"""Redacts what a run records and shows: values that were given as secrets are masked.

A secret is recognised by its origin: a value of an input or variable with the name of a secret
(:mod:`worldsize.documents.secrecy.names`), or a value that reaches one. It is masked in every text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import binding as commands
from worldsize.azureml import literals
from worldsize.base import untrusted
from worldsize.base.whole_file import write_whole
from worldsize.documents.secrecy import assignments, masking
from worldsize.documents.secrecy.masking import HIDDEN, Mask
from worldsize.documents.secrecy.names import is_secret
from worldsize.running.model.process import Call, Process, walk_processes
from worldsize.running.model.results import Failure
from worldsize.running.model.task import Graph, Source, StepValues, Task, Text, list_parts

_LONGEST_COPY = 4 << 20  # bytes of a compiled file; a larger one has no settings


def make_mask(graph: Graph, settings: Mapping[str, str]) -> Mask:
    """Make the mask of all secrets of a run; ``settings`` are the values of ``--set`` by name."""
    secrets = {*graph.secrets}
    for name, text in settings.items():
        secrets |= masking.find_secrets(name, text)
    for task in graph.tasks.values():
        secrets |= set(_task_secrets(task))
    for plan in graph.sweeps.values():
        searched = [parameter for parameter in plan.parameters if is_secret(parameter.name)]
        secrets |= {literals.render_literal(value) for parameter in searched for value in parameter.values}
    return Mask(secrets)


def _task_secrets(task: Task) -> Iterator[str]:
    for name, value in task.environment_variables.items():
        yield from masking.find_secrets(name, value)
    for name, source in task.inputs.items():
        for part in list_parts(source) if source is not None else ():
            if isinstance(part, Text):
                yield from [part.rendered] if part.secret else masking.find_secrets(name, part.rendered)


def is_hidden(name: str, source: Source | None) -> bool:
    """Whether an input holds a secret, by its name or by the origin of its value."""
    parts = list_parts(source) if source is not None else ()
    texts = [part for part in parts if isinstance(part, Text)]
    return any(part.secret for part in texts) or (bool(texts) and is_secret(name))


def redact_parameters(inputs: Mapping[str, Source | None], longest: int, mask: Mask) -> dict[str, str]:
    """The inputs that are texts, shortened, for records that others can read."""
    return {
        name: HIDDEN if is_hidden(name, source) else mask.text(source.rendered)[:longest]
        for name, source in inputs.items()
        if isinstance(source, Text)
    }


class Redaction(Struct, frozen=True):
    """How the processes of one step are shown."""

    mask: Mask  # hides the secrets of the run
    command: str = ""  # the command as it is run
    shown: str = ""  # the same with each secret input replaced, also one that is too short to be looked for
    variables: frozenset[str] = field(default_factory=frozenset)  # those that hold a secret input

    def processes(self, plan: Iterable[Process]) -> list[dict[str, Any]]:
        """All processes of a plan for the event log."""
        names = ("name", "rank", "local_rank", "node", "argv", "env")
        shown = map(self.process, walk_processes(plan))
        return [{name: getattr(process, name) for name in names} for process in shown]

    def process(self, process: Process) -> Process:
        """A process as it may be shown, but not started."""
        return replace(
            process,
            argv=tuple(self.mask.text(self.shown if word == self.command else word) for word in process.argv),
            env={
                **self.mask.named(process.env),
                **dict.fromkeys(self.variables & process.env.keys(), HIDDEN),
            },
            members=tuple(map(self.process, process.members)),
        )


def make_redaction(task: Task, call: Call, values: StepValues, mask: Mask) -> Redaction:
    """Make the redaction that shows the processes of a step."""
    secret = [name for name, source in task.inputs.items() if is_hidden(name, source)]
    hidden = {**values.inputs, **dict.fromkeys((name for name in secret if values.inputs[name]), HIDDEN)}
    shown_command = commands.fill_command(task.command, hidden, values.outputs).strip()
    variables = frozenset(f"AZUREML_PARAMETER_{name}" for name in secret)
    return Redaction(mask, call.command, shown_command, variables)


def redact_failure(failure: Failure | None, mask: Mask) -> Failure | None:
    """A failure without secrets in its log lines and messages."""
    if failure is None:
        return None
    lines, notes = (tuple(map(mask.text, texts)) for texts in (failure.last_lines, failure.notes))
    return replace(failure, last_lines=lines, notes=notes, message=mask.text(failure.message))


def hide_in_compiled(folder: Path, mask: Mask) -> None:
    """Remove the secrets from the compiled pipeline in a run's folder; what runs is in memory already."""
    for path in [*folder.glob("*.yml"), *folder.glob("*.json")]:
        try:
            text = untrusted.read_text(path, _LONGEST_COPY)
        except untrusted.UnreadableError as error:
            if error.too_large:
                continue
            raise
        masked = mask.text(assignments.replace_values(str(path), text, HIDDEN))
        if masked != text:
            write_whole(path, masked.encode(), follow=False)
