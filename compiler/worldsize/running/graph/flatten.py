"""From a job graph to tasks: the graphs of pipeline components unfolded, every input traced to its source.

Nothing is started and nothing is written; the refusals are complete before the first step begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from worldsize.azureml import cycle, distribution
from worldsize.azureml.model import Job
from worldsize.azureml.references import shorten
from worldsize.base import budget
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.running.graph import trace, unwritten
from worldsize.running.graph.faults import Faults
from worldsize.running.graph.scope import Scope
from worldsize.running.graph.task import Reader
from worldsize.running.graph.trace import Assets, Tracer
from worldsize.running.starting.sources import Output
from worldsize.running.tasks import Task

if TYPE_CHECKING:
    from worldsize.running.sweep.plan import SweepPlan

LONGEST_LIST = 12  # names shown in a message about a cycle
LONGEST_NAME = 240  # of a folder; the trials of a sweep add to it
MOST_STEPS = 20_000  # pipeline components inside each other multiply: ten lines can mean a billion steps
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Graph:
    """A pipeline as what runs of it.

    Attributes:
        tasks: by name; those of a pipeline component are called ``outer.inner``.
        outputs: what the pipeline itself declares, and the step's output that it is.
        sweeps: what each step of kind ``sweep`` tries.
        notices: what to say before it runs.
        keep_going: whether steps that do not need a failed one still run.
        force_rerun: whether no step takes over what an earlier run has made.
        secrets: values that came through a name which says that they are secret.
    """

    tasks: Mapping[str, Task]
    outputs: Mapping[str, Output]
    notices: tuple[str, ...] = ()
    sweeps: Mapping[str, SweepPlan] = field(default_factory=dict)
    keep_going: bool = False
    force_rerun: bool = False
    secrets: frozenset[str] = frozenset()


def flatten(job: Job, assets: Assets) -> tuple[Graph, list[Problem]]:
    """The tasks of a job, in its own order.

    Args:
        job: The pipeline, or a standalone job as a graph of one step.
        assets: What references to a workspace mean here.

    Returns:
        The graph, and every reason why it cannot run here.
    """
    faults, whole = Faults(), Span(str(job.path or "pipeline"), 1, 1, 1, 1)
    outer = Scope(job)
    if not job.steps:
        problem = Problem("run-empty", whole, "there is no step to run", "a pipeline has `jobs:`")
        return Graph({}, {}), [problem]
    if _count(job, {}) > MOST_STEPS:
        message = f"the pipeline has more than {MOST_STEPS} steps once its components are unfolded"
        return Graph({}, {}), [Problem("run-refused", whole, message, "run one of its components alone")]
    tasks: dict[str, Task] = {}
    sweeps: dict[str, SweepPlan] = {}
    tracer = Tracer(assets)
    for reader in _readers(outer, whole, tracer, faults):
        budget.check_time()
        task = reader.task()
        if task is not None:
            tasks[task.name] = task
        plan = reader.sweep() if task is not None and task.kind == "sweep" else None
        if plan is not None:
            sweeps[reader.name] = plan
    graph = Graph(
        tasks=tasks,
        outputs={} if faults.problems else dict(_outputs(outer)),
        notices=(*faults.notices, *_not_written(outer)),
        sweeps=sweeps,
        # Unset it is true: "CLI (v2) pipeline job YAML schema" says so since 2023, when Microsoft
        # began to write `false` into its own examples (azureml-examples, pull request 2368). Older copies of
        # the page, and the schedule's, still say false.
        keep_going=_switch(job, "continue_on_step_failure", default=True),
        force_rerun=_switch(job, "force_rerun", default=False),
        secrets=frozenset(tracer.secrets),
    )
    return graph, faults.problems or _cycle(tasks, whole)


def _readers(scope: Scope, at: Span, tracer: Tracer, faults: Faults) -> Iterator[Reader]:
    """Every step that runs; in place of a pipeline step those of its component."""
    for step in scope.job.steps.values():
        reader = Reader(scope, step, step.span or at, tracer, faults)
        if _NAME.fullmatch(step.name) is None or len(reader.name) > LONGEST_NAME:
            reader.refuse(
                f"`{shorten(reader.name)}` cannot be the name of a folder", "use a few letters and digits"
            )
        elif step.type != "pipeline":
            yield reader
        elif (inner := _inner(reader)) is not None:
            yield from _readers(inner, reader.span, tracer, faults)


def _inner(reader: Reader) -> Scope | None:
    """The graph behind a pipeline step, once what it is given is known to be sound."""
    component = reader.step.component
    inner = reader.scope.inside(reader.step)
    if inner is None or inner.job.interface is None or inner.job.path is None:
        if component is not None and component.graph is not None:
            message = f"the pipeline component of step `{reader.name}` stands in the step itself"
            reader.refuse(message, "put it into a file of its own")
        else:
            reader.runnable()
        return None
    ports = dict(inner.job.interface.inputs)
    reader.check_names(ports)
    for port in ports.values():
        reader.value(port)
    for name in inner.job.interface.outputs:
        writers = inner.writers(name)
        if len(writers) != 1:
            said = "no step writes" if not writers else f"{len(writers)} steps write"
            message = f"{said} the output `{name}` of the component of step `{reader.name}`"
            reader.refuse(message, f"bind one output of a step to it: `${{{{parent.outputs.{name}}}}}`")
    return inner


def _outputs(outer: Scope) -> list[tuple[str, Output]]:
    """The outputs of the pipeline itself, each traced to the step that makes it."""
    found = []
    for step in outer.job.steps.values():
        for name, setting in step.outputs.items():
            bound = setting.value.binding
            made = trace.output(outer, step.name, name) if bound is not None else None
            if bound is not None and bound.value.port and isinstance(made, Output):
                found.append((bound.value.port, made))
    return found


def _not_written(outer: Scope) -> Iterator[str]:
    """Of the pipeline itself; steps say it of their own."""
    if outer.job.type == "pipeline":
        yield from unwritten.notices(outer.job.outputs, outer.folder, "outputs")


def _count(job: Job, known: dict[int, int]) -> int:
    """Steps after unfolding; a component that is used often is counted once and multiplied."""
    total = 0
    for step in job.steps.values():
        inner = step.component.graph if step.component is not None else None
        if inner is None:
            total += 1
            continue
        if id(inner) not in known:
            known[id(inner)] = _count(inner, known)
        total += known[id(inner)]
    return total


def _switch(job: Job, name: str, *, default: bool) -> bool:
    found = distribution.member(job.settings, name)
    return default if found is None or found.value is None else str(found.value).lower() == "true"


def _cycle(tasks: Mapping[str, Task], whole: Span) -> list[Problem]:
    """A problem where steps wait for each other."""
    found = cycle.find_cycle(tasks, lambda name: sorted(tasks[name].needs))
    if found is None:
        return []
    order = {name: position for position, name in enumerate(tasks)}
    first = found.index(min(found, key=order.__getitem__))
    found = found[first:] + found[:first]
    names = ", ".join(f"`{name}`" for name in found[:LONGEST_LIST])
    span = tasks[found[0]].span or whole
    said = f"steps {names} wait for each other" if len(found) > 1 else f"step {names} waits for itself"
    return [Problem("run-cycle", span, said, "break the circle of bindings")]
