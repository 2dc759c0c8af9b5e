"""Which environment each step of a run has: decided before anything is built or started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.diagnostics.snippet import Sources
from worldsize.running.environments.definition import Definition, read_definition
from worldsize.running.environments.docker import find_docker_fault
from worldsize.running.model.options import EnvironmentMode, RunOptions
from worldsize.running.model.source import Assets
from worldsize.running.model.task import Task

PLAN_FILE = "plan.json"  # beside a pipeline that a spec was compiled to
SCRIPTS = (".py", ".ipynb", ".sh", ".r", ".R")
LARGEST_SCRIPT = 1 << 20  # bytes; what is longer was not written by hand
LONGEST_LIST = 3  # steps named in a notice


@dataclass(frozen=True, slots=True)
class EnvironmentPlan:
    """The environments of a run.

    Attributes:
        mode: what they are here.
        definitions: by step.
        sources: the texts that problems point into.
        notices: what is otherwise than where the job is meant to run, each a line.
        problems: why the run cannot begin.
    """

    mode: EnvironmentMode = "current"
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    sources: Sources = field(default_factory=dict)

    def find_definition(self, step: str) -> Definition:
        """The environment of a step; a step that another made while it ran has that of its maker."""
        name = step
        while name not in self.definitions and "." in name:
            name = name.rpartition(".")[0]
        return self.definitions.get(name, Definition())


def choose_mode(options: RunOptions, target: Path, pipeline: Path) -> EnvironmentMode:
    """What environments are here: as asked, else ``current`` for what comes from a spec of ours.

    Args:
        options: what was asked.
        target: what the user named.
        pipeline: the job file, another one where the target is a spec.
    """
    if options.environment is not None:
        return options.environment
    ours = target != pipeline or (pipeline.parent / PLAN_FILE).exists()
    return "current" if ours else "isolated"


def plan_environments(
    tasks: Mapping[str, Task],
    code: Mapping[str, Snapshot],
    assets: Assets,
    mode: EnvironmentMode,
    sources: Sources,
    *,
    gate: CopyAccess,
) -> EnvironmentPlan:
    """Read what every step says of its environment.

    Args:
        tasks: the steps.
        code: the working folder of each.
        assets: where environments lie that are only named.
        mode: what they are to be here.
        sources: the texts that the steps were read from.
        gate: which files an environment may be made of.
    """
    if mode == "current":
        return EnvironmentPlan(mode)
    definitions: dict[str, Definition] = {}
    problems: list[Problem] = []
    for name, task in tasks.items():
        definition, more = read_definition(task.component.environment, task.folder, assets, gate)
        if (
            definition.modules
            and mode == "isolated"
            and not _imports(definition.modules, task, code.get(name))
        ):
            definition = replace(definition, requirements=(), modules=frozenset())
        definitions[name] = definition
        problems += [problem for problem in more if problem not in problems]
    problems += assets.problems
    if mode == "docker":
        problems += _uncontained(tasks, definitions)
    notices = tuple(_notices(definitions)) if mode == "isolated" else ()
    return EnvironmentPlan(mode, definitions, notices, tuple(problems), sources)


def _imports(modules: frozenset[str], task: Task, code: Snapshot | None) -> bool:
    """Whether a step's command or code names one of the modules as one imports or runs them."""
    names = "|".join(map(re.escape, sorted(modules)))
    pattern = re.compile(rf"(?:\bimport|\bfrom|,|-m)\s+(?:{names})\b")
    return any(pattern.search(text) for text in (task.command, *_texts(code)))


def _texts(code: Snapshot | None) -> Iterator[str]:
    for name, source in code.files.items() if code is not None else ():
        if name.endswith(SCRIPTS) and isinstance(source, Path) and source.stat().st_size <= LARGEST_SCRIPT:
            yield source.read_text(encoding="utf-8", errors="replace")


def _notices(definitions: Mapping[str, Definition]) -> Iterator[str]:
    """One line for each thing that is otherwise, however many steps it concerns."""
    yield from dict.fromkeys(line for each in definitions.values() for line in each.notices)
    unknown: dict[str, list[str]] = {}
    for step, definition in definitions.items():
        if definition.unknown and not definition.requirements:
            unknown.setdefault(definition.name, []).append(step)
    for name, steps in unknown.items():
        yield (
            f"{name} ({_listed(steps)}): what its image holds is not known here, the packages installed here"
            " are used"
        )


def _listed(steps: Sequence[str]) -> str:
    shown = ", ".join(steps[:LONGEST_LIST])
    return shown if len(steps) <= LONGEST_LIST else f"{shown} and {len(steps) - LONGEST_LIST} more"


def _uncontained(tasks: Mapping[str, Task], definitions: Mapping[str, Definition]) -> Iterator[Problem]:
    """Why steps cannot run in containers here; where there is no engine, that alone."""
    first = next((each.span for each in definitions.values() if each.span), Span("environment", 1, 1, 1, 1))
    reason = find_docker_fault()
    if reason is not None:
        help_ = "start a Docker engine, or take `--environment isolated`"
        yield Problem("run-refused", first, f"`--environment docker` is not possible here: {reason}", help_)
        return
    said = set()
    for name, definition in definitions.items():
        span = definition.span or first
        if tasks[name].launcher == "mpi":
            message = f"step `{name}` is distributed with `mpi`, which is not run in containers here"
            yield Problem("run-refused", span, message, "take `--environment isolated`")
        elif definition.image is None and definition.context is None and span not in said:
            said.add(span)
            message = (
                f"step `{name}` names no image"
                if not definition.name
                else f"{definition.name} names no image"
            )
            help_ = "map it to an environment file with `image:`, or take `--environment isolated`"
            yield Problem("run-refused", span, message, help_)
