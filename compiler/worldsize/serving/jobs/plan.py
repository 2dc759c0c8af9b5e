"""What a job will consist of before it runs: the jobs below it, and the slots that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from worldsize.azureml import binding, fields, literals
from worldsize.azureml.model import Component, Field, Job, Literal, Step
from worldsize.running.model.task import Text, count_launched
from worldsize.serving.control.paths import output_path
from worldsize.serving.database import now
from worldsize.serving.jobs.records import JobRecord, child_name
from worldsize.serving.workspace import BLOB_STORE

TYPES = {"sweep": "Sweep", "pipeline": "Pipeline"}  # of jobs by the kind of the step; others are commands


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step that becomes a job below another one."""

    name: str  # in the run: `outer.inner`
    type: str
    title: str
    outer: str | None  # the step that it is inside of
    inputs: dict[str, Any]  # both as the service shows them
    outputs: dict[str, Any]
    objective: dict[str, Any] | None = None  # of a sweep


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The steps of a job. ``own_step`` is the step that is the job itself, where it is no pipeline."""

    own_step: str | None
    steps: tuple[PlannedStep, ...]

    def records(self, root: JobRecord) -> Iterator[JobRecord]:
        """The rows of the jobs below a job."""
        for step in self.steps:
            yield child_record(
                root,
                step.name,
                parent=root.name if step.outer is None else child_name(root.name, step.outer),
                type_=step.type,
                title=step.title,
                properties={
                    "inputs": _bind_inputs(root.name, step),
                    "outputs": step.outputs,
                    **({"objective": step.objective} if step.objective else {}),
                },
            )


def child_record(
    root: JobRecord, step: str, *, parent: str, type_: str, title: str, properties: dict[str, Any]
) -> JobRecord:
    """The row of a job below another one, which has not started."""
    return JobRecord(
        name=child_name(root.name, step),
        type=type_,
        display_name=title,
        experiment=root.experiment,
        status="NotStarted",
        properties={"jobType": type_, **properties},
        root=root.root,
        parent=parent,
        step=step,
        created=now(),
        schedule=root.schedule,
    )


def plan_children(job: Job | None) -> JobPlan:
    """Plan the jobs below a job."""
    if job is None:
        return JobPlan(None, ())
    if job.type != "pipeline":
        return JobPlan(next(iter(job.steps), None), ())
    return JobPlan(None, tuple(_list_steps(job, None)))


def _list_steps(job: Job, outer: str | None) -> Iterator[PlannedStep]:
    for step in job.steps.values():
        name = step.name if outer is None else f"{outer}.{step.name}"
        title = step.display_name.value if step.display_name is not None else None
        inner = step.component.graph if step.component is not None else None
        yield PlannedStep(
            name=name,
            type=TYPES.get(step.type, "Command"),
            title=str(title or step.name),
            outer=outer,
            inputs=_list_inputs(step),
            outputs=_list_outputs(step),
            objective=_find_objective(step),
        )
        if inner is not None:
            yield from _list_steps(inner, name)


def _list_inputs(step: Step) -> dict[str, Any]:
    """The inputs of a step as the service shows them: literals, and data with its address."""
    inputs = fields.read_field(step.raw, "inputs") if step.raw is not None else None  # type: ignore[arg-type]
    values = inputs.value if inputs is not None and isinstance(inputs.value, dict) else {}
    ports = step.component.inputs if step.component is not None else {}
    shown: dict[str, Any] = {}
    for name, value in values.items():
        port = ports.get(str(name))
        type_ = port.type if port is not None else None
        place = value.get("path") if isinstance(value, dict) else value
        if _read_output(place) is not None or (isinstance(value, dict) and place is not None):
            shown[str(name)] = {"jobInputType": str(type_ or "uri_folder"), "uri": str(place)}
        elif not isinstance(value, dict | list):
            shown[str(name)] = {"jobInputType": "literal", "value": str(value)}
    return shown


def _bind_inputs(root: str, step: PlannedStep) -> dict[str, Any]:
    """The inputs of a step, with the addresses of the outputs that they read."""
    bound = dict(step.inputs)
    for name, shown in step.inputs.items():
        read = _read_output(shown.get("uri"))
        if read is not None:
            before, output = read
            source = before if step.outer is None else f"{step.outer}.{before}"
            place = output_path(child_name(root, source), output).path
            place = place.removesuffix("/") if shown["jobInputType"] == "uri_file" else place
            # Without a workspace, which each client knows by names of its own.
            bound[name] = {**shown, "uri": f"azureml://datastores/{BLOB_STORE}/paths/{place}"}
    return bound


def _read_output(value: object) -> tuple[str, str] | None:
    """The step and its output that a value binds; None for any other value."""
    expression = binding.parse_expression(value.strip()) if isinstance(value, str) else None
    if expression is None or expression.scope != "parent.jobs" or expression.side != "outputs":
        return None
    return (expression.step, expression.port) if expression.step and expression.port else None


def _find_objective(step: Step) -> dict[str, Any] | None:
    """What a sweep looks for, as the service shows it."""
    objective = fields.read_field(step.raw, "objective") if step.raw is not None else None  # type: ignore[arg-type]
    if step.type != "sweep" or objective is None or not isinstance(objective.value, dict):
        return None
    goal, metric = (str(objective.value.get(key) or "") for key in ("goal", "primary_metric"))
    return {"goal": goal.capitalize(), "primaryMetric": metric}


def _list_outputs(step: Step) -> dict[str, Any]:
    """The outputs of a step: of the types that its component declares, with the names they are given."""
    component = step.component
    shown: dict[str, Any] = {}
    for name, port in component.outputs.items() if component is not None else ():
        setting = step.outputs.get(name)
        shown[name] = {"jobOutputType": port.type}
        if setting is not None:
            output = setting.value
            named = {"assetName": output.name, "assetVersion": output.version}
            if output.binding is None:
                named["uri"] = output.path
            shown[name] |= {key: str(field.value) for key, field in named.items() if field is not None}
    return shown


def count_processes(job: Job) -> int:
    """The processes of the largest step of a job, which take a slot each."""
    widths = [1]
    for step in job.steps.values():
        inner = step.component.graph if step.component is not None else None
        widths.append(count_processes(inner) if inner is not None else _count_processes(step))
    return max(widths)


def _count_processes(step: Step) -> int:
    component = step.component or Component(None, step.type, None, None, {}, {})
    block = fields.read_distribution(step.distribution or component.distribution)
    instances = _read_count(fields.read_member(step.resources or component.resources, "instance_count"))
    launched = _count_launched(step, component, instances)
    if block is None or block.kind is None:
        return instances * launched if launched > 1 else 1
    if block.worker_count is not None and (workers := literals.parse_number(block.worker_count.value)):
        return int(workers)
    return instances * _read_count(block.process_count_per_instance) * launched


def _read_count(count: Field[Any] | None) -> int:
    number = literals.parse_number(count.value) if count is not None else None
    return max(1, int(number or 1))


def _count_launched(step: Step, component: Component, instances: int) -> int:
    """The processes that a launcher in the command starts on each instance; 1 where there is none."""
    if component.command is None:
        return 1
    values = {name: port.default.value for name, port in component.inputs.items() if port.default is not None}
    values |= {
        name: bound.value.value for name, bound in step.inputs.items() if isinstance(bound.value, Literal)
    }
    texts = {name: Text(value) for name, value in values.items()}
    return count_launched(str(component.command.value), texts, instances)
