"""Plans a pipeline in Python: derives the numbers of its steps and fills them into its nodes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from worldsize.azureml.model import Literal, Step
from worldsize.base import untrusted
from worldsize.base.resources import built_in_files
from worldsize.checking import check_spec, settings
from worldsize.checking.python_places import point_into_python
from worldsize.documents.errors import PipelineError, SpecError
from worldsize.dsl.load import PLANNED
from worldsize.dsl.write import find_folder, find_source, write_files, write_pipeline
from worldsize.planning.model import Plan, StepPlan

SPEC = "spec.yml"
_INLINE = "{}.component.yml"
_SERVERLESS = "serverless"
_PLANNED_VALUE = "${{plan."
_COMPONENT = "https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json"
_PLANNABLE = "command nodes are planned: of `command()`, of a component's file, and the built-in components"
# Without these a plan changes nothing of a training; what scripts call them.
_NAMES = {
    "learning_rate": ("lr", "rate", "base_lr"),
    "batch_size_per_device": ("batch_size", "batch", "micro_batch_size", "per_device_train_batch_size"),
}


def fill_plan(job: Any, *, instance_types: Mapping[str, str], scale: Mapping[str, Mapping[str, Any]]) -> Plan:
    """Plan a pipeline job of azure-ai-ml and set what follows on its nodes.

    Processes per instance, world size, batches, learning rate, warm-up, shards and shared memory become
    inputs and settings of the nodes. A value that a node already has is verified and stays.

    Args:
        job: What a function with ``@dsl.pipeline`` returns; its nodes are changed.
        instance_types: VM size by the name of a compute target, such as
            ``{"gpu-cluster": "Standard_NC96ads_A100_v4"}``.
        scale: For each training node what ``scale:`` says in a spec, such as
            ``{"train": {"reference": {"batch_size": 32, "learning_rate": 0.05}}}``.

    Returns:
        The plan, with the arithmetic of every number.

    Raises:
        PipelineError: ``scale`` or ``instance_types`` names what the job does not have.
        SpecError: The numbers do not fit; the findings point into the job's Python file.
    """
    unknown = next((name for name in scale if name not in job.jobs), None)
    if unknown is not None:
        nodes = ", ".join(f"`{name}`" for name in job.jobs)
        raise PipelineError(
            f"the pipeline has no node `{unknown}`, which `scale` names", f"its nodes are {nodes}"
        )
    folder = find_folder(job)
    written = yaml.safe_load(untrusted.read_bytes(write_pipeline(job, folder)))
    document = _make_spec(job, written, instance_types, scale)
    try:
        checked = check_spec(write_files(folder, {SPEC: document, **_find_inline(written)}) / SPEC)
    except SpecError as error:
        raise SpecError(*point_into_python(error.diagnostics, error.sources)) from None
    for name, step in checked.planned.step_plans.items():
        inputs = written["jobs"][name].get("inputs") or {}
        _fill_node(job.jobs[name], inputs, step, checked.planned.job.steps[name])
        _warn_of_unfilled(name, step, inputs, checked.planned.job.steps[name])
    setattr(job, PLANNED, checked)
    return checked.planned.complete_plan


def _make_spec(
    job: Any,
    written: Mapping[str, Any],
    instance_types: Mapping[str, str],
    scale: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the part of a job that a plan depends on, as a spec."""
    inputs = written.get("inputs") or {}
    steps: dict[str, dict[str, Any]] = {}
    own_sizes: dict[str, Any] = {}
    for name, node in written["jobs"].items():
        reason = _explain_unplanned(node)
        if reason is None:
            step = _make_step(name, job.jobs[name], node, inputs)
            step["compute"] = cluster = _name_cluster(name, node, written)
            own_sizes |= {cluster: _own_size(node)} if cluster.startswith(f"{_SERVERLESS}-") else {}
            steps[name] = step | ({"scale": dict(scale[name])} if name in scale else {})
        elif name in scale:
            raise PipelineError(
                f"node `{name}`, which `scale` names, cannot be planned: {reason}", _PLANNABLE
            )
    if not steps:
        raise PipelineError("the pipeline has no node that can be planned", _PLANNABLE)
    clusters = sorted({step["compute"] for step in steps.values()})
    unknown = next((name for name in instance_types if name not in clusters), None)
    if unknown is not None:
        raise PipelineError(
            f"no node runs on `{unknown}`, which `instance_types` names",
            f"the nodes run on {', '.join(f'`{name}`' for name in clusters)}",
        )
    sizes = {**_read_sizes(), **own_sizes, **instance_types}
    compute = {
        name: {"target": f"azureml:{name}"} | ({"instance_type": sizes[name]} if name in sizes else {})
        for name in clusters
    }
    return {"name": "pipeline", "compute": compute, "steps": steps}


def _read_sizes() -> dict[str, str]:
    """The VM sizes of the clusters that the project's settings describe."""
    computes = settings.read_project_settings(Path.cwd()).computes
    return {
        compute.name: str(compute.size.value)
        for compute in computes
        if compute.name and compute.size is not None
    }


def _explain_unplanned(written: Mapping[str, Any]) -> str | None:
    """Why a node cannot be a step of a spec; None if it can."""
    kind = written.get("type", "command")
    if kind != "command":
        return f"it is a {kind} node"
    component = written["component"]
    if isinstance(component, str) and component.startswith("azureml:"):
        return f"what `{component}` takes is known to the workspace only"
    return None


def _find_inline(written: Mapping[str, Any]) -> dict[str, Any]:
    """The components that have no file, as those of ``command()``, by the name of a file for each."""
    return {
        _INLINE.format(name): {"$schema": _COMPONENT, "name": name, **node["component"]}
        for name, node in written["jobs"].items()
        if _explain_unplanned(node) is None and isinstance(node["component"], dict)
    }


def _make_step(name: str, node: Any, written: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node as a step."""
    source = find_source(node.component)
    uses = f"./{_INLINE.format(name)}" if source is None else str(written["component"])
    built_in = built_in_files().get(source.parent.name) if source is not None else None
    if source is not None and built_in is not None and source == built_in.resolve():
        uses = source.parent.name
    step: dict[str, Any] = {"uses": uses}
    count = (written.get("resources") or {}).get("instance_count")
    processes = (written.get("distribution") or {}).get("process_count_per_instance")
    step |= {"instance_count": int(count)} if count else {}
    step |= {"process_count_per_instance": int(processes)} if processes else {}
    timeout = (written.get("limits") or {}).get("timeout")
    step |= {"timeout": int(timeout)} if timeout else {}
    values = {name: _literal(value, inputs) for name, value in (written.get("inputs") or {}).items()}
    return step | {"with": {name: value for name, value in values.items() if value is not None}}


def _literal(value: Any, inputs: Mapping[str, Any]) -> Any:
    """Return an input's value; that of a pipeline input is what the job was made with."""
    if isinstance(value, str) and value.startswith("${{parent.inputs."):
        bound = inputs.get(value.removeprefix("${{parent.inputs.").removesuffix("}}"))
        return None if isinstance(bound, dict) and "path" not in bound else bound
    return value


def _name_cluster(name: str, node: Mapping[str, Any], written: Mapping[str, Any]) -> str:
    """The cluster of a node; each VM size of serverless compute counts as one of its own."""
    default = written.get("compute") or (written.get("settings") or {}).get("default_compute")
    compute = node.get("compute") or default
    if not isinstance(compute, str):
        raise PipelineError(
            f"node `{name}` has no compute", "set `node.compute`, or `compute` of the pipeline"
        )
    cluster = compute.removeprefix("azureml:")
    size = _own_size(node)
    return f"{_SERVERLESS}-{size.replace('_', '-')}" if cluster == _SERVERLESS and size else cluster


def _own_size(node: Mapping[str, Any]) -> str | None:
    """The VM size that a node asks of serverless compute."""
    size = (node.get("resources") or {}).get("instance_type")
    return size if isinstance(size, str) else None


def _fill_node(node: Any, written: Mapping[str, Any], plan: StepPlan, step: Step) -> None:
    """Set what the plan derives and the node does not have, or names as ``${{plan.…}}``."""
    for name, argument in step.inputs.items():
        is_filled = name not in written or _PLANNED_VALUE in str(written[name])
        if is_filled and isinstance(argument.value, Literal):
            setattr(node.inputs, name, argument.value.value)
    topology = plan.topology
    if topology.launcher in ("pytorch", "mpi"):
        node.distribution.process_count_per_instance = topology.process_count_per_instance
    elif topology.launcher == "tensorflow":
        node.distribution.worker_count = topology.worker_count
    settings = step.resources.value if step.resources is not None else None
    shared_memory = settings.get("shm_size") if isinstance(settings, dict) else None
    # A ResourceConfiguration, which some people take for a JobResourceConfiguration, has no such attribute.
    if shared_memory is not None and not getattr(node.resources, "shm_size", True):
        node.resources.shm_size = shared_memory


def _warn_of_unfilled(node: str, plan: StepPlan, written: Mapping[str, Any], step: Step) -> None:
    """Warn of what a training node has no input for: only inputs with the plan's names are filled."""
    if plan.training is None or step.component is None:
        return
    inputs = step.component.inputs
    texts = " ".join(map(str, written.values()))
    lacking = {
        name for name in _NAMES if name in plan.inputs and name not in inputs and f"plan.{name}" not in texts
    }
    if "global_batch_size" in inputs:  # such a component divides it itself
        lacking.discard("batch_size_per_device")
    for quantity in sorted(lacking):
        near = next((name for name in _NAMES[quantity] if name in inputs), None)
        value = plan.inputs[quantity]
        if near is not None and written.get(near) == value:
            continue
        message = f"node `{node}` has no input `{quantity}`, so the planned value {value} does not reach it"
        advice = (
            f"give its input `{near}` the text `${{{{plan.{quantity}}}}}`"
            if near
            else "add one to its component"
        )
        warnings.warn(f"{message}: {advice}", stacklevel=4)
