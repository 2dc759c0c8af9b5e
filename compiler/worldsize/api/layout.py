"""The files that a planned spec is compiled to, all in memory: nothing is written here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.api import look_files
from worldsize.api.bundle import (
    FILE,
    Bundle,
    Content,
    Shelf,
    bundle_component,
    find_relative,
    relocate_inputs,
    shelve,
)
from worldsize.azureml import binding, literals, write, yaml_dump
from worldsize.azureml.component import load_component
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.fields import read_field
from worldsize.azureml.files import Files
from worldsize.azureml.model import AZURE_ML, Argument, Component, Data, Field, Job, Literal, Step
from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.documents import yaml
from worldsize.documents.yaml.nodes import Node, Scalar
from worldsize.planning import plan_file
from worldsize.planning.estimates import prediction
from worldsize.planning.estimates.measured_case import MeasuredRun, choose_runs
from worldsize.planning.memory import step_memory
from worldsize.planning.memory.workload import PREDICTION, literal_inputs
from worldsize.planning.model import Plan, StepPlan
from worldsize.resolving import step_settings
from worldsize.resolving.planned import Planned
from worldsize.resolving.step_estimates import StepEstimate, estimate_step
from worldsize.spec.model import ComputeProfile
from wstrain_deepspeed import config as deepspeed_config

PIPELINE = "pipeline.yml"


class Layout(Struct, frozen=True):
    """The files of a compiled spec, each as bytes or as the file to copy, sorted; and the graph in them."""

    files: Content
    job: Job  # as in the folder: paths are relative to it
    problems: list[Problem]


def lay_out_files(planned: Planned, plan: Plan, out: Path, runs: Sequence[MeasuredRun] = ()) -> Layout:
    """Everything that compiling writes, by path inside the output folder.

    Only relative paths of local data depend on ``out``; predicted speeds are calibrated by ``runs``.
    """
    spec, shelf = planned.spec, Shelf(planned.files.gate, out)
    steps = {
        name: _place_step(planned, step, shelf, out)
        for name, step in add_predictions(planned, plan, runs).items()
    }
    inputs = {name: _relative(value, spec.path.parent, out) for name, value in planned.job.inputs.items()}
    job = replace(planned.job, path=out / PIPELINE, inputs=inputs, steps=steps, keys=AZURE_ML, clusters=None)
    header = f"Compiled by worldsize from {spec.path.name}: change that file, not this one."
    files: Content = {**shelf.files, PIPELINE: write.dump(job, header=header).encode()}
    if spec.schedule is not None:
        files["schedule.yml"] = _schedule(planned).encode()
    files.update(_clusters(planned, plan))
    for name, step in planned.job.steps.items():
        config = render_deepspeed_config(step, plan.steps[name])
        if config is not None:
            files[f"deepspeed/{name}.json"] = config.encode()
    if spec.schedule is not None and spec.retrain is not None:
        files.update(look_files.lay_out_look(planned, plan, files, planned.files.gate))
    files[plan_file.NAME] = plan_file.dump(plan, planned.templates, list(files))
    return Layout({name: files[name] for name in sorted(files)}, job, shelf.problems)


def load_components(job: Job, out: Path, files: Files) -> Job:
    """The graph of :func:`lay_out_files`, with its component files read from the output folder."""
    steps = {}
    for name, step in job.steps.items():
        path = out / step.reference.value if step.component is not None and step.reference else None
        written = step.component is not None and step.component.path == path
        if path is not None and not written:
            step = replace(step, component=load_component(path, files))  # noqa: PLW2901 - the same step, read back
        steps[name] = step
    return replace(job, steps=steps)


def _place_step(planned: Planned, step: Step, shelf: Shelf, out: Path) -> Step:
    """The step with a reference to its component's folder, and with data paths relative to the output."""
    limits.check_time()
    folder = planned.spec.path.parent
    inputs = {name: _relative(argument, folder, out) for name, argument in step.inputs.items()}
    if step.component is None:
        return replace(step, inputs=inputs)
    trial = step.component
    if step.type == "sweep":
        trial, step = make_trial(step, trial), make_node(step)
    name, component = _place_component(planned, step, trial, shelf, out)
    return replace(step, inputs=inputs, component=component, reference=Field(f"./components/{name}/{FILE}"))


def _place_component(
    planned: Planned, step: Step, component: Component, shelf: Shelf, out: Path
) -> tuple[str, Component]:
    """Give the component of a step a folder, shared by all steps that use it; the name and the component."""
    at = step.span or planned.spec.span
    added = planned.added.get(step.name)
    extra = added if added is not None and added.files else None
    key = (id(component), id(extra))
    if key not in shelf.placed:  # both are kept, so that their ids are not reused
        changed = component is not planned.job.steps[step.name].component
        bundle = bundle_component(component, at, shelf.gate, extra, changed=changed)
        name = shelve(shelf, bundle, step.name, step.name if extra is not None else None, at)
        if component.path is None:
            component = _written_component(component, bundle, out / "components" / name / FILE)
        shelf.placed[key] = (name, component, (step.component, extra))
    return shelf.placed[key][:2]


def _written_component(component: Component, bundle: Bundle, path: Path) -> Component:
    """A component that is written in the spec, as in its file in the output."""
    code, environment = bundle.document.get("code"), component.environment
    if environment is not None:
        environment = replace(environment, value=bundle.document["environment"], node=None)
    return replace(
        component,
        path=path,
        folder=path.parent,
        inline=False,
        keys=AZURE_ML,
        code=replace(component.code or Field(code), value=code, node=None) if code is not None else None,
        environment=environment,
    )


def _relative(argument: Field[Argument], folder: Path, out: Path) -> Field[Argument]:
    """A local data path relative to the output folder, from one relative to the spec."""
    value = argument.value
    if not isinstance(value, Data) or value.path is None or not isinstance(value.path.value, str):
        return argument
    text = find_relative(value.path.value, folder, out)
    if text is None:
        return argument
    return replace(argument, value=replace(value, path=replace(value.path, value=text)))


def _schedule(planned: Planned) -> str:
    spec, schedule = planned.spec, planned.spec.schedule
    assert schedule is not None
    if schedule.cron is not None:
        trigger: dict[str, Any] = {"type": "cron", "expression": schedule.cron.value}
    else:
        trigger = {"type": "recurrence", **(schedule.recurrence.value if schedule.recurrence else {})}
    for key in ("start_time", "end_time", "time_zone"):
        located = getattr(schedule, key)
        if located is not None:
            trigger[key] = located.value
    looks = spec.retrain is not None
    inputs = {name: located.value for name, located in schedule.inputs.items()}
    return write.schedule(
        schedule.name.value if schedule.name else f"{spec.name.value}_schedule",
        trigger,
        f"./{look_files.JOB if looks else PIPELINE}",
        display_name=spec.display_name.value if spec.display_name else None,
        inputs={look_files.NOW: look_files.FIRING} if looks else inputs,
        rerun=not looks,
    )


def _clusters(planned: Planned, plan: Plan) -> Content:
    """One file per cluster; all profiles of a cluster say the same about it."""
    together: dict[str, list[ComputeProfile]] = {}
    for profile in planned.spec.compute.values():
        together.setdefault(step_settings.cluster_of(profile), []).append(profile)
    sized = {name: group for name, group in together.items() if _first_setting(group, "instance_type")}
    return {
        f"compute/{name}.yml": _cluster(planned, plan, name, group).encode() for name, group in sized.items()
    }


def _cluster(planned: Planned, plan: Plan, name: str, profiles: list[ComputeProfile]) -> str:
    first_setting = partial(_first_setting, profiles)
    names = {profile.name for profile in profiles}
    users = [
        plan.steps[step.name].topology.instance_count
        for step in planned.spec.steps.values()
        if step.compute and step.compute.value in names and step.name in plan.steps
    ]
    return write.compute(
        name,
        first_setting("instance_type"),
        tier=first_setting("tier") or "dedicated",
        min_instances=first_setting("min_instances") or 0,
        max_instances=first_setting("max_instances") or max(users, default=1),
        idle_time_before_scale_down=first_setting("idle_time_before_scale_down"),
        identity=look_files.looks_on(planned, names),
    )


def _first_setting(profiles: list[ComputeProfile], key: str) -> Any:
    values = (getattr(profile, key) for profile in profiles)
    return next((located.value for located in values if located is not None), None)


STAGE, OWN = "zero_stage", "ds_config"  # inputs by which a DeepSpeed component is known, and given a file
_INPUTS = (
    STAGE,
    "precision",
    "loss_scale",
    "max_gradient_norm",
    "optimizer",
    "offload_optimizer",
    "offload_parameters",
    "offload_path",
)


def render_deepspeed_config(step: Step, plan: StepPlan) -> str | None:
    """The text of the configuration, or None if the step has none, or its own.

    A combination that DeepSpeed would refuse has none either: the rules have reported it.
    """
    if step.component is None or STAGE not in step.component.inputs or OWN in step.inputs:
        return None
    training = plan.training
    if training is None:
        return None
    inputs = literal_inputs(step, _INPUTS)
    try:
        planned = deepspeed_config.Plan(
            micro_batch=training.batch_size_per_device,
            accumulation=training.gradient_accumulation_steps,
            world_size=plan.topology.world_size,
            **{name: value for name, value in inputs.items() if value is not None},
        )
        return deepspeed_config.to_json(deepspeed_config.build_config(planned))
    except (TypeError, ValueError):
        return None


def add_predictions(planned: Planned, plan: Plan, runs: Sequence[MeasuredRun] = ()) -> dict[str, Step]:
    """The steps, with the predicted memory and speed where their components ask for them.

    The trials of a sweep are planned one by one, and have none. A value that the spec gives is kept. Speeds
    are calibrated by ``runs``.

    Raises:
        UnusableRunError: A run tells nothing of the step that it trained.
    """
    needs = step_memory.estimate_steps(
        planned.job,
        plan,
        read_table=planned.read_table,
        learned=planned.vm_sizes,
        read_config=planned.read_config,
    )
    trainings = [name for name, step in plan.steps.items() if step.training is not None]
    steps = {}
    for name, step in planned.job.steps.items():
        ports = step.component.inputs if step.component is not None and step.type != "sweep" else {}
        inputs: dict[str, Field[Argument]] = {}
        if name in needs and PREDICTION in ports:
            comment = "bytes a process, see worldsize plan --memory"
            inputs[PREDICTION] = Field(Literal(needs[name].breakdown.total), comment=comment)
        if prediction.SPEED in ports and plan.steps[name].training is not None:
            its_runs = choose_runs(runs, name, trainings)
            speed = estimate_step(planned, name, plan.steps[name], its_runs, planned.read_table)
            inputs |= {key: value for key, value in _predict_speed(speed).items() if key in ports}
        steps[name] = replace(step, inputs={**step.inputs, **inputs, **step.inputs}) if inputs else step
    return steps


def _predict_speed(speed: StepEstimate) -> dict[str, Field[Argument]]:
    if speed.case is None or speed.estimate is None:
        return {}
    values = prediction.write_inputs(speed.case, speed.estimate.samples_per_second)
    comment = f"{speed.estimate.basis}, see worldsize plan"
    return {
        name: Field[Argument](Literal(value), comment=comment if name == prediction.SPEED else None)
        for name, value in values.items()
    }


_SPACE = "search_space"


def make_trial(step: Step, component: Component) -> Component:
    """The component of a sweep step, with the step's processes, instances and variables."""
    command = component.command
    if command is not None and isinstance(command.value, str):
        text = f"{_set_variables(step)}{_name_inputs(command.value)}"
        command = Field(text) if text != command.value else command
    base = component.resources.value if component.resources is not None else {}
    resources = {
        **(base if isinstance(base, dict) else {}),
        **(step.resources.value if step.resources else {}),
    }
    return replace(
        component,
        command=command,
        distribution=step.distribution or component.distribution,
        resources=Field(resources) if resources else None,
        is_deterministic=component.is_deterministic,
        raw=_with_entries(component.raw, step, command, resources),
    )


def make_node(step: Step) -> Step:
    """The step without what only its trials have, and with the limits of the sweep, as it is written."""
    limits = read_field(step.raw, "limits") if isinstance(step.raw, yaml.Mapping) else None
    return replace(step, distribution=None, environment_variables=None, limits=limits)


def _name_inputs(command: str) -> str:
    """The command with ``${{inputs.x}}`` for ``${{search_space.x}}``: the trial's component declares it."""
    for expression in reversed(binding.find_expressions(command)):
        if expression.scope == _SPACE and expression.port:
            written = f"${{{{inputs.{expression.port}}}}}"
            command = f"{command[: expression.start]}{written}{command[expression.end :]}"
    return command


def _set_variables(step: Step) -> str:
    variables = step.environment_variables.value if step.environment_variables is not None else {}
    words = [f"{name}={shlex.quote(literals.render_literal(value))}" for name, value in variables.items()]
    return f"export {' '.join(words)} && " if words else ""


def _with_entries(
    raw: Node | None, step: Step, command: Field[Any] | None, resources: dict[str, Any]
) -> Node | None:
    """The component's file with the changed keys, in the order that it has."""
    if not isinstance(raw, yaml.Mapping):
        return raw
    changed: dict[str, Any] = {}
    if step.distribution is not None:
        changed["distribution"] = step.distribution.value
    if resources:
        changed["resources"] = resources
    if command is not None and command.node is None:
        changed["command"] = command.value
    nodes = {name: _to_node(raw, value) for name, value in changed.items()}
    entries = [(key, nodes.pop(key.text, node)) for key, node in raw.entries]
    at = next((place for place, (key, _) in enumerate(entries) if key.text == "command"), len(entries))
    entries[at:at] = [(_scalar(raw, name), node) for name, node in nodes.items()]
    return yaml.Mapping(raw.source, raw.start, raw.end, entries, raw.flow)


def _to_node(at: yaml.Mapping, value: Any) -> Node:
    if isinstance(value, dict):
        entries = [(_scalar(at, name), _to_node(at, part)) for name, part in value.items()]
        return yaml.Mapping(at.source, at.start, at.end, entries)
    return _scalar(at, value)


def _scalar(at: yaml.Mapping, value: Any) -> Scalar:
    return Scalar(at.source, at.start, at.end, str(value), "", None, [], value)


_SCHEMA = "https://azuremlschemas.azureedge.net/latest/{}Component.schema.json"


def lay_out_pipeline(
    job: Job,
    planned: tuple[Plan, Mapping[str, Mapping[str, str]]],
    gate: CopyAccess,
    out: Path,
    header: str,
) -> tuple[Content, list[Problem]]:
    """Everything that the folder of a pipeline holds, by path inside it; and why some files cannot be copied.

    Args:
        job: The pipeline, read from its file.
        planned: Its plan, and the text that the plan filled in.
        gate: What may be copied.
        out: The folder, to which paths of local data become relative.
        header: What the first line of the pipeline says.
    """
    assert job.raw is not None
    assert job.path is not None
    document: dict[str, Any] = yaml.to_python(job.raw)
    folder, shelf = job.path.parent, Shelf(gate, out)
    relocate_inputs(document, folder, out)
    for name, step in job.steps.items():
        limits.check_time()
        node = document["jobs"][name]
        relocate_inputs(node, folder, out)
        if step.component is not None:
            key = "trial" if "trial" in node else "component"
            node[key] = f"./components/{_place(step, step.component, shelf, job)}/{FILE}"
    files: Content = {
        **shelf.files,
        PIPELINE: yaml_dump.dump(document, header=header, paragraphs="jobs").encode(),
    }
    files[plan_file.NAME] = plan_file.dump(*planned, list(files))
    return {name: files[name] for name in sorted(files)}, shelf.problems


def _place(step: Step, component: Component, shelf: Shelf, job: Job) -> str:
    """Give the component of a step a folder, shared by all steps that use it; the folder's name."""
    at = step.span or Span(str(job.path), 1, 1, 1, 1)
    bundle = bundle_component(component, at, shelf.gate)
    if component.path is None:  # it was part of its step, which needs no schema
        bundle.document = {"$schema": _SCHEMA.format(component.type), **bundle.document}
    return shelve(shelf, bundle, step.name, None, at)
