"""Writes a submitted job as files: ``pipeline.yml``, its components, and a ``worldsize.yml``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worldsize.azureml import yaml_dump
from worldsize.azureml.sweep import POLICIES, SETTINGS
from worldsize.running.prepare.graph.kinds import UNSUPPORTED_KINDS
from worldsize.serving.errors import ServiceError, bad_request
from worldsize.serving.home import PRIVATE_FOLDER
from worldsize.serving.jobs.process import JOB_FILE, SETTINGS_FILE
from worldsize.serving.jobs.translate.body import (
    Body,
    References,
    as_object,
    drop_empty,
    read_inputs,
    read_outputs,
)

_SETTINGS = {"continue_on_step_failure": Body.get, "force_rerun": Body.get}


def job_type(properties: Mapping[str, Any]) -> str:
    """The type of a job as the service spells it: Command, Pipeline or Sweep.

    Raises:
        ServiceError: There is none, or jobs of that type do not run here.
    """
    word = Body(properties).text("jobType") or ""
    for name in _READERS:
        if name.lower() == word.lower():
            return name
    what, _ = UNSUPPORTED_KINDS.get(word.lower(), (f"of type `{word[:40]}`", ""))
    message = f"The job is {what}; `worldsize serve` runs {', '.join(_READERS)} jobs."
    raise ServiceError(400, "UserError", message)


def translate_job(properties: Mapping[str, Any], references: References) -> dict[str, Mapping[str, Any]]:
    """The files of a job by their paths; what they refer to is noted in ``references``.

    ``properties`` are those of the body, without the defaults of the service.

    Raises:
        ServiceError: The body is not that of a job which runs here.
    """
    body, writer = Body(properties), GraphWriter(references)
    head = body.read(display_name=Body.text, experiment_name=Body.text, description=Body.text)
    document = {**head, "tags": dict(body.object("tags")), **_READERS[job_type(properties)](body, writer)}
    return {JOB_FILE: drop_empty(document), **writer.files}


def _read_ports(body: Body, references: References) -> dict[str, Any]:
    return {
        "inputs": read_inputs(body.object("inputs"), "properties.inputs", references),
        "outputs": read_outputs(body.object("outputs"), "properties.outputs"),
        "compute": references.compute(body.text("computeId")),
    }


def _read_single(body: Body, writer: GraphWriter) -> dict[str, Any]:
    references = writer.references
    return {"type": "command", **_read_command(body, references), **_read_ports(body, references)}


def _read_sweep(body: Body, writer: GraphWriter) -> dict[str, Any]:
    references = writer.references
    trial = body.body("trial") or Body({}, "properties.trial")
    return {
        "type": "sweep",
        **_read_ports(body, references),
        **read_settings(Body({"resources": body.get("resources") or {}})),
        "trial": _read_command(trial, references),
        **read_sweep(body),
    }


def _read_pipeline(body: Body, writer: GraphWriter) -> dict[str, Any]:
    settings, references = body.body("settings") or Body({}, "properties.settings"), writer.references
    compute = references.compute(settings.text("defaultCompute"))
    kept = {**settings.read(**_SETTINGS), "default_compute": compute or "serverless"}
    jobs = writer.read_nodes(body.object("jobs"), "properties.jobs", f"./{FOLDER}/")
    ports = _read_ports(body, references)
    return {"type": "pipeline", **ports, "settings": kept, "jobs": jobs}


_READERS: Mapping[str, Callable[[Body, GraphWriter], dict[str, Any]]] = {
    "Command": _read_single,
    "Pipeline": _read_pipeline,
    "Sweep": _read_sweep,
}


def write_files(files: Mapping[str, Mapping[str, Any]], folder: Path, settings: Mapping[str, Any]) -> Path:
    """Write the files of a job into a folder of its own; the path of the job file."""
    for name, document in files.items():
        path = folder / name
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        path.write_text(yaml_dump.dump(document), encoding="utf-8")
    # It makes the folder a project of its own.
    (folder / SETTINGS_FILE).write_text(yaml_dump.dump(drop_empty(settings)), encoding="utf-8")
    return folder / JOB_FILE


FOLDER = "components"
MAX_DEPTH = 30  # of pipeline components inside one another
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
# What YAML has and a definition in the workspace has under the same key.
_COMPONENT_KEYS = (
    "name", "version", "display_name", "description", "tags", "type", "is_deterministic", "inputs", "outputs",
    "input_data", "mini_batch_size", "partition_keys", "max_concurrency_per_instance", "error_threshold",
    "mini_batch_error_threshold", "retry_settings", "logging_level", "program_arguments",
)  # fmt: skip
_PARALLEL_KEYS = _COMPONENT_KEYS[_COMPONENT_KEYS.index("input_data") :]


@dataclass(slots=True)
class GraphWriter:
    """Collects the files of a pipeline: ``files`` has the documents by path."""

    references: References
    files: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)  # file names by the reference of the component
    _open: list[str] = field(default_factory=list)  # the components around the one that is written

    def read_nodes(self, jobs: Mapping[str, Any], where: str, folder: str) -> dict[str, Any]:
        """The ``jobs:`` of a pipeline; ``folder`` leads to the files of components."""
        return {name: self._read_node(value, f"{where}.{name}", folder) for name, value in jobs.items()}

    def _read_node(self, value: Any, where: str, folder: str) -> dict[str, Any]:
        body = Body(value, where)
        kind = (body.text("type") or "command").lower()
        if kind in UNSUPPORTED_KINDS:
            what, help_ = UNSUPPORTED_KINDS[kind]
            raise ServiceError(400, "UserError", f"`{where}` is {what}: {help_}.")
        node: dict[str, Any] = {
            "type": kind,
            "display_name": body.text("displayName"),
            "comment": body.text("comment"),
            "compute": self.references.compute(body.text("computeId") or body.text("compute")),
            "inputs": read_inputs(body.object("inputs"), f"{where}.inputs", self.references),
            "outputs": read_outputs(body.object("outputs"), f"{where}.outputs"),
        }
        reference = self._component_of(body, kind)
        node["trial" if kind == "sweep" else "component"] = self._write_component(reference, folder, where)
        if kind == "sweep":
            node |= read_settings(_without_limits(value, where)) | read_sweep(body)
        elif kind == "parallel":
            node |= read_settings(body) | self._read_parallel(body)
        elif kind != "pipeline":
            node |= read_settings(body)
        return drop_empty(node)

    def _component_of(self, body: Body, kind: str) -> str:
        trial = body.body("trial") if kind == "sweep" and isinstance(body.get("trial"), Mapping) else None
        reference = body.text("componentId")
        if trial is not None:
            reference = trial.text("componentId")
        elif kind == "sweep":
            reference = reference or body.text("trial")
        if not reference:
            raise bad_request(f"`{body.where}` has no `componentId`.")
        return reference

    def _write_component(self, reference: str, folder: str, where: str) -> str:
        """Write the file of a component, once; the text that a node names it by."""
        if reference in self._open or len(self._open) > MAX_DEPTH:
            raise bad_request(f"`{where}` uses a component that contains itself.")
        if reference not in self._names:
            component = self.references.find_properties("components", reference).get("componentSpec")
            if component is None:
                return reference if not reference.startswith("/") else f"azureml:{reference}"
            self._open.append(reference)
            document = self._read_component(Body(component, "componentSpec"))
            self._open.pop()
            self._names[reference] = self._add_file(document)
        return f"{folder}{self._names[reference]}"

    def _add_file(self, document: Mapping[str, Any]) -> str:
        digest = hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()
        label = _UNSAFE.sub("_", str(document.get("display_name") or document.get("name") or "component"))
        name = f"{label[:60]}-{digest[:8]}.yml"
        self.files[f"{FOLDER}/{name}"] = document
        return name

    def _read_component(self, body: Body) -> dict[str, Any]:
        kind = (body.text("type") or "command").lower().removesuffix("component")
        document = {name: body.get(name) for name in _COMPONENT_KEYS if body.get(name) is not None}
        document["type"] = kind
        if kind == "pipeline":
            document.pop("is_deterministic", None)  # the client adds it; files of that kind have none
            document["jobs"] = self.read_nodes(body.object("jobs"), "componentSpec.jobs", "./")
        elif kind == "parallel":
            document |= self._read_parallel(body)
            document |= drop_empty({"resources": body.get("resources")})
        else:
            document |= _read_command(body, self.references)
        return drop_empty(document)

    def _read_parallel(self, body: Body) -> dict[str, Any]:
        """The keys of a parallel node or component, which differ from those of YAML in three ways."""
        settings = {name: body.get(name) for name in _PARALLEL_KEYS}
        keys = settings["partition_keys"]
        if isinstance(keys, str):
            settings["partition_keys"] = _read_list(keys, f"{body.where}.partition_keys")
        size = settings["mini_batch_size"]
        if settings["partition_keys"] and str(size) == "0":  # what the client sends for none
            size = None
        settings["mini_batch_size"] = str(size) if size is not None else None
        task = body.body("task")
        if task is not None:
            settings["task"] = drop_empty(
                {
                    **as_object(body.get("task"), f"{body.where}.task"),
                    "code": self.references.code(task.text("code")),
                    "environment": self.references.environment(task.text("environment")),
                }
            )
        return settings


def _read_list(text: str, where: str) -> list[Any]:
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    if not isinstance(read, list):
        raise bad_request(f"`{where}` is not a list.")
    return read


def _without_limits(value: Any, where: str) -> Body:
    """A sweep's node without its limits, which are not those of a command."""
    return Body({name: member for name, member in as_object(value, where).items() if name != "limits"}, where)


DISTRIBUTIONS = ("pytorch", "mpi", "tensorflow", "ray")


def _read_command(body: Body, references: References) -> dict[str, Any]:
    """The keys of a command: those of a job, of a sweep's trial, or of a component's specification."""
    return drop_empty(
        {
            "command": body.text("command"),
            "code": references.code(body.text("codeId") or body.text("code")),
            "environment": references.environment(body.text("environmentId") or body.text("environment")),
            **read_settings(body),
        }
    )


def read_settings(body: Body) -> dict[str, Any]:
    """The keys that a job and a node of a pipeline share."""
    limits, resources = body.body("limits"), body.body("resources")
    variables = body.get("environmentVariables")
    return drop_empty(
        {
            "environment_variables": None if variables is None else dict(body.object("environmentVariables")),
            "distribution": _read_distribution(body.body("distribution")),
            "resources": resources and resources.read(**_RESOURCES),
            "limits": limits and limits.read(timeout=Body.seconds),
        }
    )


def _read_distribution(body: Body | None) -> dict[str, Any] | None:
    kind = body and (body.text("distributionType") or body.text("type"))
    if body is None or not kind:
        return None
    if kind.lower() not in DISTRIBUTIONS:
        raise bad_request(f"`{body.where}` is of type `{kind[:40]}`; known are PyTorch, Mpi and TensorFlow.")
    counts = ("process_count_per_instance", "worker_count", "parameter_server_count")
    return {"type": kind.lower(), **body.read(**dict.fromkeys(counts, Body.number))}


_RESOURCES: Mapping[str, Callable[[Body, str], Any]] = {
    "instance_count": Body.number,
    "instance_type": Body.get,
    "shm_size": Body.text,
    "docker_args": Body.get,
}


_POLICIES = {name.replace("_", ""): name for name in POLICIES}


def read_sweep(body: Body) -> dict[str, Any]:
    """The keys of a sweep, of a job or a node, but for its trial."""
    space = {
        name: read_distribution(value, f"{body.where}.searchSpace.{name}")
        for name, value in body.object("searchSpace").items()
    }
    objective, limits = body.body("objective"), body.body("limits")
    return drop_empty(
        {
            "sampling_algorithm": _read_sampling(body.get("samplingAlgorithm"), body.where),
            "search_space": space,
            "objective": objective and objective.read(goal=Body.lower, primary_metric=Body.text),
            "limits": limits and limits.read(**_LIMITS),
            "early_termination": _read_policy(body.body("earlyTermination")),
        }
    )


def read_distribution(value: Any, where: str) -> Any:
    """A distribution of the search space: ``["uniform", [0.1, 1.0]]``, or as YAML has it in a node.

    Raises:
        ServiceError: It is neither.
    """
    if isinstance(value, Mapping):
        return dict(value)
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], list):
        raise bad_request(f'`{where}` is not a distribution, such as `["uniform", [0.1, 1.0]]`.')
    kind, arguments = str(value[0]).lower(), value[1]
    if kind == "choice":
        values = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
        return {"type": "choice", "values": values}
    names = SETTINGS.get(kind)
    if names is None or len(names) != len(arguments):
        raise bad_request(f"`{where}` is not a distribution that is known: `{kind[:40]}`.")
    return {"type": kind, **dict(zip(names, arguments, strict=True))}


def _read_sampling(value: Any, where: str) -> Any:
    if value is None or isinstance(value, str):
        return value.lower() if value else None
    body = Body(value, f"{where}.samplingAlgorithm")
    kind = (body.text("samplingAlgorithmType") or body.text("type") or "random").lower()
    options = body.read(seed=Body.number, rule=Body.text, logbase=Body.get)
    return {"type": kind, **options} if options else kind


_LIMITS: Mapping[str, Callable[[Body, str], Any]] = {
    "max_total_trials": Body.number,
    "max_concurrent_trials": Body.number,
    "timeout": Body.seconds,
    "trial_timeout": Body.seconds,
}


def _read_policy(body: Body | None) -> dict[str, Any] | None:
    kind = body and (body.text("policyType") or body.text("type"))
    if body is None or not kind:
        return None
    slack = {"slack_factor": body.number("slackFactor"), "slack_amount": body.number("slackAmount")}
    return drop_empty(
        {
            "type": _POLICIES.get(kind.replace("_", "").lower(), kind.lower()),
            "evaluation_interval": body.number("evaluationInterval"),
            "delay_evaluation": body.number("delayEvaluation"),
            **{name: value for name, value in slack.items() if value},  # the client sends 0 for none
            "truncation_percentage": body.number("truncationPercentage") or None,
            "exclude_finished_jobs": body.get("excludeFinishedJobs"),
        }
    )
