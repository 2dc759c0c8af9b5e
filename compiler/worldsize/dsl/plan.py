"""Plans a pipeline in Python: derives the numbers of its steps and fills them into its nodes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from worldsize import api, resources
from worldsize.azureml import yaml_dump
from worldsize.azureml.model import Literal, Step
from worldsize.checking import settings
from worldsize.dsl.write import PIPELINE, PLAN, find_source, write_pipeline
from worldsize.emit import plan_file
from worldsize.errors import PipelineError
from worldsize.planning.model import Plan, StepPlan

_SPEC = "pipeline as a spec.yml"


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
        SpecError: The numbers do not fit; the findings point into the job as a spec.
    """
    unknown = next((name for name in scale if name not in job.jobs), None)
    if unknown is not None:
        nodes = ", ".join(f"`{name}`" for name in job.jobs)
        raise PipelineError(
            f"the pipeline has no node `{unknown}`, which `scale` names", f"its nodes are {nodes}"
        )
    with tempfile.TemporaryDirectory() as scratch:
        written = yaml.safe_load(write_pipeline(job, Path(scratch)).read_text(encoding="utf-8"))
        spec = Path(scratch) / _SPEC
        spec.write_text(yaml_dump.dump(_make_spec(job, written, instance_types, scale)), encoding="utf-8")
        sizes = settings.read_project_settings(Path.cwd()).vm_sizes.values()
        described = {"vm_sizes": {size.name: settings.describe_size(size) for size in sizes}}
        (Path(scratch) / "worldsize.yml").write_text(yaml_dump.dump(described), encoding="utf-8")
        planned = api.plan_spec(spec)
    for name, step in planned.plan.steps.items():
        given = written["jobs"][name].get("inputs") or {}
        _fill_node(job.jobs[name], given, step, planned.resolved.job.steps[name])
    # What runs on fewer processes is planned again from it.
    setattr(job, PLAN, plan_file.dump(planned.plan, planned.resolved.templates, [PIPELINE]))
    return planned.plan


def _make_spec(
    job: Any,
    written: Mapping[str, Any],
    instance_types: Mapping[str, str],
    scale: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the part of a job that a plan depends on, as a spec."""
    inputs = written.get("inputs") or {}
    steps = {}
    for name, node in written["jobs"].items():
        step = _make_step(job.jobs[name], node, inputs)
        if step is not None:
            step["compute"] = _cluster(node.get("compute") or written.get("compute"), name)
            steps[name] = step | ({"scale": dict(scale[name])} if name in scale else {})
    clusters = sorted({step["compute"] for step in steps.values()})
    unknown = next((name for name in instance_types if name not in clusters), None)
    if unknown is not None:
        raise PipelineError(
            f"no node runs on `{unknown}`, which `instance_types` names",
            f"the nodes run on {', '.join(f'`{name}`' for name in clusters)}",
        )
    compute = {
        name: {"target": f"azureml:{name}"}
        | ({"instance_type": instance_types[name]} if name in instance_types else {})
        for name in clusters
    }
    return {"name": "pipeline", "compute": compute, "steps": steps}


def _make_step(node: Any, written: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a node as a step, or None if it is not a command with a component file."""
    source = find_source(getattr(node, "component", None))
    if source is None or written.get("type", "command") != "command":
        return None
    builtin = source == resources.component_file(source.parent.name).resolve()
    step: dict[str, Any] = {"uses": source.parent.name if builtin else str(source)}
    count = (written.get("resources") or {}).get("instance_count")
    processes = (written.get("distribution") or {}).get("process_count_per_instance")
    step |= {"instance_count": int(count)} if count else {}
    step |= {"process_count_per_instance": int(processes)} if processes else {}
    given = {name: _literal(value, inputs) for name, value in (written.get("inputs") or {}).items()}
    return step | {"with": {name: value for name, value in given.items() if value is not None}}


def _literal(value: Any, inputs: Mapping[str, Any]) -> Any:
    """Return an input's value; that of a pipeline input is what the job was made with."""
    if isinstance(value, str) and value.startswith("${{parent.inputs."):
        given = inputs.get(value.removeprefix("${{parent.inputs.").removesuffix("}}"))
        return None if isinstance(given, dict) and "path" not in given else given
    return value


def _cluster(compute: object, node: str) -> str:
    if not isinstance(compute, str):
        raise PipelineError(
            f"node `{node}` has no compute", "set `node.compute`, or `compute` of the pipeline"
        )
    return compute.removeprefix("azureml:")


def _fill_node(node: Any, given: Mapping[str, Any], plan: StepPlan, step: Step) -> None:
    """Set what the plan derives and the node does not have."""
    for name, argument in step.inputs.items():
        if name not in given and isinstance(argument.value, Literal):
            setattr(node.inputs, name, argument.value.value)
    topology = plan.topology
    if topology.launcher in ("pytorch", "mpi"):
        node.distribution.process_count_per_instance = topology.process_count_per_instance
    elif topology.launcher == "tensorflow":
        node.distribution.worker_count = topology.worker_count
    settings = step.resources.value if step.resources is not None else None
    shared_memory = settings.get("shm_size") if isinstance(settings, dict) else None
    if shared_memory is not None and node.resources is not None and not node.resources.shm_size:
        node.resources.shm_size = shared_memory
