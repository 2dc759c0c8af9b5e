"""The steps of a pipeline: their graph, the inputs of each, and the plan and processes behind it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml import binding
from worldsize.base.wording import show_number
from worldsize.planning.model import Derivation
from worldsize.planning.plan_text import PlanRow, list_rows
from worldsize.planning.quantities import MACHINE, PLANNED, label_quantity
from worldsize.running.model.folder import RunFolder
from worldsize.running.record.history import RunRecord, load_run
from worldsize.running.record.json_files import read_json
from worldsize.serving.control.paths import find_asset, parse_asset
from worldsize.serving.database import Database, mapping_of, text_of
from worldsize.serving.jobs.execution import STATES
from worldsize.serving.jobs.records import JobRecord, get_job
from worldsize.serving.page.queries.forms import Field, component_fields, value_text


class Process(Struct, frozen=True):
    """A process of the step's last attempt."""

    name: str
    rank: str
    node: str
    command: str


class StepPlan(Struct, frozen=True):
    """What is known of the plan of one step."""

    step: str
    topology: Mapping[str, str]
    inputs: Mapping[str, str]  # that the plan fills wherever a component declares them
    rows: tuple[PlanRow, ...]
    processes: tuple[Process, ...]
    attempts: int = 0


def read_plans(folder: RunFolder, steps: list[str]) -> list[StepPlan]:
    """The plans of steps, from the compiled spec where there is one and from the log of the run."""
    document = read_json(folder.pipeline / "plan.json") or {}
    planned = mapping_of(document, "steps")
    run = load_run(folder.root)
    started: dict[str, list[Mapping[str, Any]]] = {}
    for event in run.events:
        if event["event"] == "step_started":
            started.setdefault(str(event.get("step")), []).append(event)
    return [
        _step_plan(
            step,
            mapping_of(planned, step),
            started.get(step, []),
            run.steps[step].parameters if step in run.steps else {},
        )
        for step in steps
    ]


def _step_plan(
    step: str, plan: Mapping[str, Any], attempts: list[Mapping[str, Any]], parameters: Mapping[str, str]
) -> StepPlan:
    topology = mapping_of(plan, "topology")
    listed = attempts[-1].get("processes") if attempts else None
    return StepPlan(
        step=step,
        topology={label_quantity(key): _show(value) for key, value in topology.items() if value is not None},
        inputs={
            label_quantity(name): value
            for name, value in parameters.items()
            if name in PLANNED or name in MACHINE
        },
        rows=tuple(list_rows(_read_derivations(plan))),
        processes=tuple(
            _process(process)
            for process in (listed if isinstance(listed, list) else [])
            if isinstance(process, Mapping)
        ),
        attempts=len(attempts),
    )


def _read_derivations(plan: Mapping[str, Any]) -> Iterator[Derivation]:
    listed = plan.get("derivations")
    for row in listed if isinstance(listed, list) else []:
        with contextlib.suppress(msgspec.ValidationError):  # in a file that others have changed
            yield msgspec.convert(row, Derivation)


def _process(process: Mapping[str, Any]) -> Process:
    argv = process.get("argv")
    words = [str(word) for word in argv] if isinstance(argv, list) else []
    command = words[-1] if words[:2] == ["bash", "-c"] else " ".join(words)
    return Process(
        name=text_of(process, "name"),
        rank=_show(process.get("rank")),
        node=_show(process.get("node")),
        command=command,
    )


def _show(value: Any) -> str:
    return "–" if value is None else show_number(value)


_STATES = {**STATES, "died": "Failed", "interrupted": "Canceled"}  # of a run's steps, in Azure ML's words


class Node(Struct, frozen=True):
    """A step; ``job`` is the name of its job once it has one."""

    name: str
    label: str
    status: str
    needs: tuple[str, ...]
    job: JobRecord | None = None
    reused: bool = False


def read_graph(job: JobRecord, steps: Mapping[str, JobRecord], run: RunRecord | None) -> list[Node]:
    """The steps of a pipeline job.

    Before a job runs they are those of its body; then those of its run, where nested pipelines are steps of
    their own. ``steps`` has all children below the submitted job, by the names of their steps.
    """
    prefix = f"{job.step}." if job.parent is not None and job.step else ""
    if run is not None and run.steps:
        names = {
            name: tuple(need for need in step.needs if need.startswith(prefix))
            for name, step in run.steps.items()
            if name.startswith(prefix)
        }
    else:
        bound = dict(_bound_steps(mapping_of(job.properties, "jobs")))
        names = {prefix + name: tuple(prefix + need for need in needs) for name, needs in bound.items()}
    return [_node(name, prefix, needs, steps.get(name), run) for name, needs in names.items()]


def _node(
    name: str, prefix: str, needs: tuple[str, ...], child: JobRecord | None, run: RunRecord | None
) -> Node:
    record = None if run is None else run.steps.get(name)
    state = "NotStarted" if record is None else _STATES.get(record.state, record.state)
    return Node(
        name=name,
        label=name[len(prefix) :],
        status=state if child is None else child.status,
        needs=needs,
        job=child,
        reused=record is not None and record.state == "reused",
    )


def _bound_steps(nodes: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for name, node in nodes.items():
        inputs = mapping_of(node, "inputs") if isinstance(node, Mapping) else {}
        texts = (
            str(port.get("value") or port.get("uri") or "")
            for port in inputs.values()
            if isinstance(port, Mapping)
        )
        bound = (expression for text in texts for expression in binding.find_expressions(text))
        needs = dict.fromkeys(
            expression.step
            for expression in bound
            if expression.step is not None and expression.side == "outputs"
        )
        yield name, [need for need in needs if need in nodes and need != name]


KIND = "components"


def read_component_spec(database: Database, reference: str) -> Mapping[str, Any]:
    """What the component of an id declares, which may have been sent with a job; empty if it is elsewhere."""
    name = parse_asset(reference)
    component = None
    if name is not None and name.kind in ("", KIND):
        component = find_asset(database, KIND, name)
    return {} if component is None else mapping_of(component.properties, "componentSpec")


def step_body(database: Database, job: JobRecord) -> dict[str, Any]:
    """What the submitted body and its component say of a step; empty for others, and in components."""
    root = None if job.parent is None or job.step is None else get_job(database, job.root)
    node = {} if root is None else mapping_of(mapping_of(root.properties, "jobs"), str(job.step))
    spec = read_component_spec(database, text_of(node, "componentId"))
    said = {"command": spec.get("command"), "environmentId": spec.get("environment")}
    more = {name: spec.get(name) for name in ("distribution", "resources")}
    return {name: value for name, value in {**said, **more, **node}.items() if value is not None}


def step_fields(database: Database, properties: Mapping[str, Any]) -> dict[str, list[Field]]:
    """The values that the body of a pipeline sets, by step, with what the components say of them."""
    fields: dict[str, list[Field]] = {}
    for step, node in mapping_of(properties, "jobs").items():
        if not isinstance(node, Mapping):
            continue
        spec = read_component_spec(database, text_of(node, "componentId"))
        declared = {field.name: field for field in component_fields(spec)}
        values = dict(_values(node))
        if values:
            fields[step] = [
                replace(declared.get(name, Field(name, "")), default=value) for name, value in values.items()
            ]
    return fields


def change_steps(properties: Mapping[str, Any], changes: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The body of a pipeline with other values, by step and input."""
    changed: dict[str, Any] = copy.deepcopy(dict(properties))
    for step, values in changes.items():
        inputs = changed["jobs"][step]["inputs"]
        for name, text in values.items():
            inputs[name]["value"] = text
    return changed


def _values(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The inputs of a step that are values, and not bound to something else."""
    for name, port in mapping_of(node, "inputs").items():
        value = port.get("value") if isinstance(port, Mapping) else None
        if isinstance(value, str | int | float) and "${{" not in str(value):
            yield name, value_text(value)
