"""How a step runs: compute, resources, distribution, limits, variables; and the settings of the job.

Every count has the place where the user pins it, else the places that it is derived from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import literals
from worldsize.azureml.job import Compute
from worldsize.azureml.model import SPEC, Field, Job, OutputSetting, Step, join_fields
from worldsize.azureml.tree import read_cluster
from worldsize.base.problem import Related
from worldsize.documents.yaml.nodes import find_node
from worldsize.planning.model import PlanValue
from worldsize.planning.quantities import comment
from worldsize.resolving import plan_values
from worldsize.resolving.state import ResolveState
from worldsize.spec import model

_UNCOMMENTED = ("instance_count", "parameter_server_count")  # they say nothing that the spec does not
_CLUSTER_KEYS = ("instance_type", "tier", "min_instances", "max_instances", "idle_time_before_scale_down")


def build_job(spec: model.Spec, steps: Mapping[str, Step], computes: Mapping[str, Compute]) -> Job:
    """The pipeline job around the steps.

    It has no ``name``: in Azure ML that is the name of one submission, and a second one with the
    same name would be refused.
    """
    # Without it Azure ML continues after a failed step, which costs GPU-hours; so it is always written.
    settings = {"continue_on_step_failure": False, **{key: part.value for key, part in spec.settings.items()}}
    clusters = {name: read_cluster(compute) for name, compute in computes.items()}
    placed = [(name, step.compute.value) for name, step in spec.steps.items() if step.compute is not None]
    order = ("default_datastore", "continue_on_step_failure", "force_rerun")
    chosen = {key: settings[key] for key in (*order, *settings) if key in settings}
    return Job(
        path=None,
        type="pipeline",
        keys=SPEC,
        display_name=spec.display_name or spec.name,
        description=spec.description,
        experiment_name=spec.experiment_name or spec.name,
        tags=Field({name: tag.value for name, tag in spec.tags.items()}) if spec.tags else None,
        steps=steps,
        settings=Field(chosen),
        clusters={name: clusters[key] for name, key in placed if key in clusters},
    )


def cluster_of(profile: model.ComputeProfile) -> str:
    """The cluster's name in the workspace; a profile without target is named after itself."""
    if profile.target is None:
        return profile.name.replace("_", "-")
    return profile.target.value.removeprefix("azureml:").rstrip("/").rpartition("/")[2]


def read_compute(spec: model.Spec, profile: model.ComputeProfile) -> Compute:
    """The cluster that a profile is compiled to, as if it were read from its compute file."""
    size, most = profile.instance_type, profile.max_instances
    return Compute(cluster_of(profile), spec.path, size, most, profile.tier)


def check_clusters(state: ResolveState) -> None:
    """Report profiles that describe one cluster in two ways."""
    first: dict[str, model.ComputeProfile] = {}
    for profile in state.spec.compute.values():
        other = first.setdefault(cluster_of(profile), profile)
        for key in _CLUSTER_KEYS:
            mine, theirs = getattr(profile, key), getattr(other, key)
            if mine is None or theirs is None or mine.value == theirs.value:
                continue
            cluster = cluster_of(profile)
            message = (
                f"cluster `{cluster}` has `{key}` {mine.value} here, but {theirs.value} in `{other.name}`"
            )
            help_ = "give both profiles the same value, or each a `target` of its own"
            state.report(
                "compute-conflict", mine.span, message, help_, Related(theirs.span, "the other value")
            )


def compute(state: ResolveState, step: str) -> Field[Any] | None:
    """``azureml:gpu-cluster``."""
    chosen, profile = state.spec.steps[step].compute, state.spec.profile_of(step)
    if chosen is None or profile is None:
        return None
    target = profile.target.value if profile.target else f"azureml:{cluster_of(profile)}"
    sources = (profile.target.span if profile.target else profile.span,)
    return replace(chosen, value=target, sources=sources)


def resources(state: ResolveState, step: str) -> Field[Any] | None:
    """Instances and shared memory, where they are not Azure ML's defaults."""
    plan, topology, spec_step = state.step_plan(step), state.topologies.get(step), state.spec.steps[step]
    block: dict[str, Field[Any]] = {}
    if topology is not None and (topology.instance_count > 1 or spec_step.instance_count is not None):
        block["instance_count"] = _count(state, step, "instance_count", topology.instance_count)
    if spec_step.shm_size is not None:
        block["shm_size"] = spec_step.shm_size
    elif plan is not None and (derived := plan.find_row("shm_size")) is not None:
        block["shm_size"] = _count(state, step, "shm_size", derived.value)
    return join_fields(block) if block else None


def distribution(state: ResolveState, step: str) -> Field[Any] | None:
    """The launcher's block with its counts, also of a step that cannot be planned further."""
    topology, stated = state.topologies.get(step), state.spec.steps[step].distribution
    if topology is None or topology.launcher == "none":
        return None
    block: dict[str, Field[Any]] = {
        "type": Field(topology.launcher, *((stated.type.span, stated.type.key_span) if stated else ()))
    }
    names = ["process_count_per_instance"]
    if topology.launcher == "tensorflow":
        names = ["worker_count", *(["parameter_server_count"] if topology.parameter_server_count else ())]
    for name in names:
        block[name] = _count(state, step, name, getattr(topology, name))
    return join_fields(block, stated.span if stated else None)


def _count(state: ResolveState, step: str, quantity: str, value: PlanValue | None) -> Field[Any]:
    """A planned value of a step's settings: at its pin, or with what it is derived from."""
    plan, spec_step = state.step_plan(step), state.spec.steps[step]
    why = None if plan is None or quantity in _UNCOMMENTED else comment(plan, quantity)
    for block in (spec_step, spec_step.distribution):
        pinned = getattr(block, quantity, None)
        if isinstance(pinned, model.Located):
            return replace(pinned, value=value, comment=why)
    return Field(value, comment=why, sources=plan_values.source_spans(state, step, quantity))


def limits(step: model.Step) -> Field[Any] | None:
    """The time limit, in seconds."""
    return join_fields({"timeout": step.timeout}) if step.timeout is not None else None


def environment_variables(state: ResolveState, step: str) -> Field[Any] | None:
    """Variables as text, since what a boolean looks like in the process is not documented."""
    variables: dict[str, Field[Any]] = {}
    for name, located in state.spec.steps[step].environment_variables.items():
        filled = plan_values.fill_text(state, step, located)
        if filled.follows:
            state.templates.setdefault(step, {})[f"${name}"] = str(located.value)
        text = literals.render_literal(filled.value)
        variables[name] = replace(located, value=text, comment=filled.comment, sources=filled.sources)
    return join_fields(variables) if variables else None


def _read_part(located: Field[Any], key: str) -> Field[Any]:
    """One entry of a mapping, with its place."""
    node = find_node(located.node, key)
    return Field(located.value[key], node.span if node is not None else None, node=node)


def outputs(state: ResolveState, step: str) -> dict[str, Field[OutputSetting]]:
    """Settings of outputs beyond their type, which the component declares."""
    declared = state.outputs(step)
    settings: dict[str, Field[OutputSetting]] = {}
    for name, located in state.spec.steps[step].outputs.items():
        value = located.value
        keys = ("path", "mode", "name", "version")
        if isinstance(value, dict) and any(key in value for key in keys):
            parts = {key: _read_part(located, key) if key in value else None for key in keys}
            type_ = declared[name].type if declared and name in declared else value.get("type")
            settings[name] = Field(OutputSetting(type=type_, **parts), located.span, located.key_span)
    return settings
