"""Turns a job graph into tasks: pipeline components expanded, every input traced to its source.

Nothing is started or written; all problems are reported before the first step starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from worldsize.azureml import fields
from worldsize.azureml.graph import find_cycle
from worldsize.azureml.model import Job
from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.wording import shorten
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.source import Output
from worldsize.running.model.task import Graph, SweepPlan, Task
from worldsize.running.prepare.graph.refusals import Refusals, notice_unwritten_outputs
from worldsize.running.prepare.graph.step import StepReader
from worldsize.running.prepare.graph.trace import Scope, Tracer, trace_output

LONGEST_LIST = 12  # names shown in a message about a cycle
LONGEST_NAME = 240  # of a folder; the names of trials are longer
MAX_STEPS = 20_000  # nested pipeline components multiply: ten lines can expand to a billion steps
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def flatten(job: Job, assets: AssetMap) -> tuple[Graph, list[Problem]]:
    """The tasks of a job in its own order, and every reason why they cannot run here."""
    faults, file_start = Refusals(), Span(str(job.path or "pipeline"), 1, 1, 1, 1)
    outer = Scope(job)
    if not job.steps:
        problem = Problem("run-empty", file_start, "there is no step to run", "a pipeline has `jobs:`")
        return Graph({}, {}), [problem]
    if _count_steps(job, {}) > MAX_STEPS:
        message = f"the pipeline has more than {MAX_STEPS} steps once its components are expanded"
        return Graph({}, {}), [Problem("run-refused", file_start, message, "run one of its components alone")]
    tasks: dict[str, Task] = {}
    sweeps: dict[str, SweepPlan] = {}
    tracer = Tracer(assets)
    for reader in _list_readers(outer, file_start, tracer, faults):
        limits.check_time()
        task = reader.task()
        if task is not None:
            tasks[task.name] = task
        plan = reader.sweep() if task is not None and task.kind == "sweep" else None
        if plan is not None:
            sweeps[reader.name] = plan
    outputs = job.outputs if job.type == "pipeline" else {}
    graph = Graph(
        tasks=tasks,
        outputs={} if faults.problems else dict(_trace_outputs(outer)),
        notices=(*faults.notices, *notice_unwritten_outputs(outputs, outer.folder, "outputs")),
        sweeps=sweeps,
        # The default is true, by "CLI (v2) pipeline job YAML schema" since 2023, when Microsoft started to
        # write `false` into its own examples (azureml-examples, pull request 2368). Older copies of the page,
        # and that of the schedule, still say false.
        keep_going=_read_switch(job, "continue_on_step_failure", default=True),
        force_rerun=_read_switch(job, "force_rerun", default=False),
        secrets=frozenset(tracer.secrets),
    )
    return graph, faults.problems or _report_cycle(tasks, file_start)


def _list_readers(scope: Scope, at: Span, tracer: Tracer, faults: Refusals) -> Iterator[StepReader]:
    """The readers of all steps that run; a pipeline step is replaced by those of its component."""
    for step in scope.job.steps.values():
        reader = StepReader(scope, step, step.span or at, tracer, faults)
        if _NAME.fullmatch(step.name) is None or len(reader.name) > LONGEST_NAME:
            message = f"`{shorten(reader.name)}` cannot be the name of a folder"
            reader.refuse(message, "use a few letters and digits")
        elif step.type != "pipeline":
            yield reader
        elif (inner := _open_component(reader)) is not None:
            yield from _list_readers(inner, reader.span, tracer, faults)


def _open_component(reader: StepReader) -> Scope | None:
    """The inner graph of a pipeline step, after its inputs and outputs were checked."""
    component = reader.step.component
    inner = reader.scope.inside(reader.step)
    if inner is None or inner.job.interface is None or inner.job.path is None:
        if component is not None and component.graph is not None:
            message = f"the pipeline component of step `{reader.name}` is defined in the step itself"
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
            writer_count = "no step writes" if not writers else f"{len(writers)} steps write"
            message = f"{writer_count} the output `{name}` of the component of step `{reader.name}`"
            reader.refuse(message, f"bind one output of a step to it: `${{{{parent.outputs.{name}}}}}`")
    return inner


def _trace_outputs(outer: Scope) -> list[tuple[str, Output]]:
    outputs = []
    for step in outer.job.steps.values():
        for name, setting in step.outputs.items():
            bound = setting.value.binding
            output = trace_output(outer, step.name, name) if bound is not None else None
            if bound is not None and bound.value.port and isinstance(output, Output):
                outputs.append((bound.value.port, output))
    return outputs


def _count_steps(job: Job, counts: dict[Job, int]) -> int:
    """Count the steps after expansion; a component is counted once, however often it is used."""
    total = 0
    for step in job.steps.values():
        inner = step.component.graph if step.component is not None else None
        if inner is None:
            total += 1
            continue
        if inner not in counts:
            counts[inner] = _count_steps(inner, counts)
        total += counts[inner]
    return total


def _read_switch(job: Job, name: str, *, default: bool) -> bool:
    setting = fields.read_member(job.settings, name)
    return default if setting is None or setting.value is None else str(setting.value).lower() == "true"


def _report_cycle(tasks: Mapping[str, Task], file_start: Span) -> list[Problem]:
    names_in_cycle = find_cycle(tasks, lambda name: sorted(tasks[name].needs))
    if names_in_cycle is None:
        return []
    first = names_in_cycle.index(next(name for name in tasks if name in names_in_cycle))
    names_in_cycle = names_in_cycle[first:] + names_in_cycle[:first]
    names = ", ".join(f"`{name}`" for name in names_in_cycle[:LONGEST_LIST])
    span = tasks[names_in_cycle[0]].span or file_start
    message = f"step {names} waits for itself"
    if len(names_in_cycle) > 1:
        message = f"steps {names} wait for each other"
    return [Problem("run-cycle", span, message, "remove one of these bindings")]
