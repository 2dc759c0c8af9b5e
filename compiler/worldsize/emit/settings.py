"""How a step runs: compute, resources, distribution, limits, environment variables; and the job's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.azureml import binding, literals
from worldsize.azureml.model import Field, Job, Step
from worldsize.base.problem import Related
from worldsize.emit import planned
from worldsize.emit.comments import comment
from worldsize.emit.work import Work
from worldsize.planning.model import Topology
from worldsize.spec import model

_CLUSTER_KEYS = ("instance_type", "tier", "min_instances", "max_instances", "idle_time_before_scale_down")


def job(spec: model.Spec, steps: Mapping[str, Step]) -> Job:
    """The pipeline job around the steps.

    It has no ``name``: in Azure ML that is the name of one submission, and a second one with the
    same name would be refused.
    """
    # Without it Azure ML goes on after a failed step, which costs GPU-hours; so it is always written.
    given = {"continue_on_step_failure": False, **{key: part.value for key, part in spec.settings.items()}}
    order = ("default_datastore", "continue_on_step_failure", "force_rerun")
    chosen = {key: given[key] for key in (*order, *given) if key in given}
    return Job(
        path=None,
        type="pipeline",
        display_name=field(spec.display_name) or field(spec.name),
        description=field(spec.description),
        experiment_name=field(spec.experiment_name) or field(spec.name),
        tags=Field({name: tag.value for name, tag in spec.tags.items()}) if spec.tags else None,
        steps=steps,
        settings=Field(chosen),
    )


def cluster_of(profile: model.ComputeProfile) -> str:
    """The cluster's name in the workspace; a profile without target is named after itself."""
    if profile.target is None:
        return profile.name.replace("_", "-")
    return profile.target.value.removeprefix("azureml:").rstrip("/").rpartition("/")[2]


def check_clusters(work: Work) -> None:
    """Report profiles that describe one cluster in two ways."""
    first: dict[str, model.ComputeProfile] = {}
    for profile in work.spec.compute.values():
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
            work.report(
                "compute-conflict", mine.span, message, help_, Related(theirs.span, "the other value")
            )


def compute(work: Work, step: str) -> Field[Any] | None:
    """``azureml:gpu-cluster``."""
    chosen = work.spec.steps[step].compute
    profile = work.spec.compute.get(chosen.value) if chosen else None
    if profile is None:
        return None
    target = profile.target.value if profile.target else f"azureml:{cluster_of(profile)}"
    return Field(target, chosen.span if chosen else None)


def resources(work: Work, step: str) -> Field[Any] | None:
    """Instances and shared memory, where they are not Azure ML's defaults."""
    topology = _topology(work, step)
    spec_step = work.spec.steps[step]
    block: dict[str, Any] = {}
    if topology is not None and (topology.instance_count > 1 or spec_step.instance_count is not None):
        span = spec_step.instance_count.span if spec_step.instance_count else None
        block["instance_count"] = Field(topology.instance_count, span)
    if spec_step.shm_size is not None:
        block["shm_size"] = field(spec_step.shm_size)
    elif (derived := _derived(work, step, "shm_size")) is not None:
        block["shm_size"] = derived
    return Field(block) if block else None


def distribution(work: Work, step: str) -> Field[Any] | None:
    """The launcher's block with its derived counts."""
    topology = _topology(work, step)
    if topology is None or topology.launcher == "none":
        return None
    block: dict[str, Any] = {"type": topology.launcher}
    if topology.launcher == "tensorflow":
        block["worker_count"] = _counted(work, step, "worker_count", topology.worker_count)
        if topology.parameter_server_count:
            block["parameter_server_count"] = Field(topology.parameter_server_count)
    else:
        count = topology.process_count_per_instance
        block["process_count_per_instance"] = _counted(work, step, "process_count_per_instance", count)
    return Field(block)


def limits(step: model.Step) -> Field[Any] | None:
    """The time limit, in seconds."""
    return Field({"timeout": field(step.timeout)}) if step.timeout else None


def environment_variables(work: Work, step: str) -> Field[Any] | None:
    """Variables as text, since what a boolean looks like in the process is not documented."""
    variables: dict[str, Any] = {}
    for name, located in work.spec.steps[step].environment_variables.items():
        value, why, follows = planned.fill(work, step, located)
        if follows:
            work.templates.setdefault(step, {})[f"${name}"] = str(located.value)
        variables[name] = Field(literals.render(value), located.span, located.key_span, comment=why)
        strange = [found for found in binding.find(str(value)) if found.scope != "plan"]
        if strange:
            message = f"`{strange[0]}` cannot stand in an environment variable"
            help_ = "write `${{plan.NAME}}`, or pass it as an input of the command"
            work.report("binding-unknown-scope", located.span, message, help_)
    return Field(variables) if variables else None


def field(located: model.Located[Any] | None) -> Field[Any] | None:
    """A value of the spec as a field of the graph, with its place."""
    return Field(located.value, located.span, located.key_span, located.node) if located else None


def _topology(work: Work, step: str) -> Topology | None:
    plan = work.plan.steps.get(step) if work.plan else None
    return plan.topology if plan else None


def _derived(work: Work, step: str, quantity: str) -> Field[Any] | None:
    """A row of the plan as a field, with its arithmetic."""
    plan = work.plan.steps.get(step) if work.plan else None
    rows = [row.value for row in plan.derivations if row.quantity == quantity] if plan else []
    return Field(rows[0], comment=comment(plan, quantity)) if plan and rows else None


def _counted(work: Work, step: str, quantity: str, value: int | None) -> Field[Any]:
    assert work.plan is not None
    return Field(value, comment=comment(work.plan.steps[step], quantity))
