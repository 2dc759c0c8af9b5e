"""What of a run may be written down or shown: nothing that was given as a secret, wherever it has gone since.

A secret is known by where it came from: a value that was given to an input or variable whose name says so
(:mod:`worldsize.secrecy.names`), or that reached one. It is hidden in every text from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from worldsize.azureml import command as commands
from worldsize.azureml import literals
from worldsize.running.graph import Graph
from worldsize.running.results import Failure
from worldsize.running.starting.inputs import Values
from worldsize.running.starting.processes import Call, Process, every
from worldsize.running.starting.sources import Source, Text, parts_of
from worldsize.running.tasks import Task
from worldsize.secrecy import masking
from worldsize.secrecy.masking import HIDDEN, Mask
from worldsize.secrecy.names import is_secret


def mask_of(graph: Graph, settings: Mapping[str, str]) -> Mask:
    """What hides the secrets of a run.

    Args:
        graph: Its steps.
        settings: What ``--set`` gave, by name.
    """
    found = {*graph.secrets}
    for name, text in settings.items():
        found |= masking.literals(name, text)
    for task in graph.tasks.values():
        found |= set(_of_task(task))
    for plan in graph.sweeps.values():
        searched = [each for each in plan.parameters if is_secret(each.name)]
        found |= {literals.render(value) for each in searched for value in each.values}
    return Mask(found)


def _of_task(task: Task) -> Iterator[str]:
    for name, value in task.environment_variables.items():
        yield from masking.literals(name, value)
    for name, source in task.inputs.items():
        for part in parts_of(source) if source is not None else ():
            if isinstance(part, Text):
                yield from [part.rendered] if part.secret else masking.literals(name, part.rendered)


def is_hidden(name: str, source: Source | None) -> bool:
    """Whether an input holds a secret by its name or by where its value came from."""
    parts = parts_of(source) if source is not None else ()
    texts = [part for part in parts if isinstance(part, Text)]
    return any(part.secret for part in texts) or (bool(texts) and is_secret(name))


def parameters(inputs: Mapping[str, Source | None], longest: int, mask: Mask) -> dict[str, str]:
    """The inputs that are texts, cut where they are long, for records that others can read."""
    return {
        name: HIDDEN if is_hidden(name, source) else mask.text(source.rendered)[:longest]
        for name, source in inputs.items()
        if isinstance(source, Text)
    }


@dataclass(frozen=True, slots=True)
class Disclosure:
    """How the processes of one step are shown.

    Attributes:
        mask: Hides the secrets of the run.
        command: The command as it is run.
        shown: The same with each secret input replaced, also one that is too short to be looked for.
        variables: Those that hold a secret input.
    """

    mask: Mask
    command: str = ""
    shown: str = ""
    variables: frozenset[str] = field(default_factory=frozenset)

    def processes(self, plan: Iterable[Process]) -> list[dict[str, Any]]:
        """All processes of a plan for the event log."""
        return [_document(self.process(process)) for process in every(plan)]

    def process(self, process: Process) -> Process:
        """A process as it may be seen; it is not one to start."""
        return replace(
            process,
            argv=tuple(map(self._word, process.argv)),
            env=self._environment(process.env),
            members=tuple(map(self.process, process.members)),
        )

    def _word(self, word: str) -> str:
        return self.mask.text(self.shown if word == self.command else word)

    def _environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        hidden = dict.fromkeys(self.variables & environment.keys(), HIDDEN)
        return {**self.mask.named(environment), **hidden}


def of_step(task: Task, call: Call, values: Values, mask: Mask) -> Disclosure:
    """How the processes of a step are shown.

    Args:
        task: The step.
        call: What it runs.
        values: Its inputs and outputs.
        mask: Hides the secrets of the run.
    """
    secret = [name for name, source in task.inputs.items() if is_hidden(name, source)]
    hidden = {**values.inputs, **dict.fromkeys((name for name in secret if values.inputs[name]), HIDDEN)}
    shown = commands.render(task.command, hidden, values.outputs).strip()
    return Disclosure(mask, call.command, shown, frozenset(f"AZUREML_PARAMETER_{name}" for name in secret))


def failure(found: Failure | None, mask: Mask) -> Failure | None:
    """Why a step failed, without secrets in what it had written or what is said of it."""
    if found is None:
        return None
    lines, notes = (tuple(map(mask.text, texts)) for texts in (found.last_lines, found.notes))
    return replace(found, last_lines=lines, notes=notes, message=mask.text(found.message))


def _document(process: Process) -> dict[str, Any]:
    return {
        "name": process.name,
        "rank": process.rank,
        "local_rank": process.local_rank,
        "node": process.node,
        "argv": list(process.argv),
        "env": dict(process.env),
    }
