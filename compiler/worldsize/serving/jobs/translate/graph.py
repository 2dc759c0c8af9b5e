"""The nodes of pipelines and the components behind them, each component in a file of its own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from worldsize.running.prepare.graph.refusals import UNSUPPORTED_KINDS
from worldsize.serving.errors import ServiceError, bad_request
from worldsize.serving.jobs.translate.body import Body, as_object, drop_empty
from worldsize.serving.jobs.translate.commands import read_command, read_settings
from worldsize.serving.jobs.translate.lookup import References
from worldsize.serving.jobs.translate.ports import read_inputs, read_outputs
from worldsize.serving.jobs.translate.sweeps import read_sweep

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
    _known: dict[str, str] = field(default_factory=dict)  # file names by the reference of the component
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
        if reference not in self._known:
            found = self.references.lookup.component(reference)
            if found is None:
                return reference if not reference.startswith("/") else f"azureml:{reference}"
            self._open.append(reference)
            document = self._read_component(Body(found, "componentSpec"))
            self._open.pop()
            self._known[reference] = self._add_file(document)
        return f"{folder}{self._known[reference]}"

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
            document.pop(
                "is_deterministic", None
            )  # the client adds it, and files of that kind do not have it
            document["jobs"] = self.read_nodes(body.object("jobs"), "componentSpec.jobs", "./")
        elif kind == "parallel":
            document |= self._read_parallel(body)
            document |= drop_empty({"resources": body.get("resources")})
        else:
            document |= read_command(body, self.references)
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
    return Body({name: each for name, each in as_object(value, where).items() if name != "limits"}, where)
