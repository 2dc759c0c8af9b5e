"""Reads a job's body: keys in camel case, in snake case inside pipelines; ports; and what ids refer to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from worldsize.azureml.references import classify
from worldsize.facts import vm_sizes
from worldsize.serving.control import paths
from worldsize.serving.control.assets import get_resource
from worldsize.serving.control.paths import AssetName
from worldsize.serving.database import mapping_of, text_of
from worldsize.serving.errors import bad_request
from worldsize.serving.tracking.models import sync_for
from worldsize.serving.workspace import Workspace

# ISO 8601, as far as the service's durations go: PT90S, PT1H30M, P2DT12H.
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d*)?S)?)?", re.ASCII)
_UNITS = (86_400, 3_600, 60, 1)


class Body:
    """An object of a request's body; ``where`` is its path in the body, for errors.

    Raises:
        ServiceError: The value is not an object.
    """

    def __init__(self, value: object, where: str = "properties") -> None:
        self.where = where
        self._members = {_squash(name): member for name, member in as_object(value, where).items()}

    def get(self, name: str) -> Any:
        """A member as it is, or None."""
        return self._members.get(_squash(name))

    def text(self, name: str) -> str | None:
        """A member that is a text or a number, as text.

        Raises:
            ServiceError: It is something else.
        """
        value = self.get(name)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool | Mapping | list):
            raise bad_request(f"`{self.where}.{name}` is not a text.")
        return str(value)

    def lower(self, name: str) -> str:
        """A text in lower case; empty if it is absent."""
        return (self.text(name) or "").lower()

    def number(self, name: str) -> Any:
        """A count or another setting that may also be a text with a binding."""
        value = self.get(name)
        if isinstance(value, Mapping | list):
            raise bad_request(f"`{self.where}.{name}` is not a number.")
        return value

    def read(self, **readers: Callable[[Body, str], Any]) -> dict[str, Any]:
        """The members that have a value, by the names that YAML has for them."""
        names = {name: re.sub("_(.)", lambda match: match[1].upper(), name) for name in readers}
        return drop_empty({name: read(self, names[name]) for name, read in readers.items()})

    def object(self, name: str) -> Mapping[str, Any]:
        """A member that is an object with names of the user's as keys; empty if it is absent."""
        value = self.get(name)
        return as_object({} if value is None else value, f"{self.where}.{name}")

    def body(self, name: str) -> Body | None:
        """A member that is an object with keys of the service's, or None."""
        value = self.get(name)
        return None if value is None else Body(value, f"{self.where}.{name}")

    def seconds(self, name: str) -> Any:
        """A duration in seconds: from ISO 8601, or the number that nodes of pipelines have.

        Raises:
            ServiceError: It is neither.
        """
        value = self.number(name)
        if not isinstance(value, str) or "${{" in value:
            return value
        match = _DURATION.fullmatch(value)
        if match is None or not any(match.groups()):
            if value.isdecimal():
                return int(value)
            raise bad_request(f"`{self.where}.{name}` is `{value[:80]}`, which is not a duration.")
        return sum(int(count or 0) * unit for count, unit in zip(match.groups(), _UNITS, strict=True))


def as_object(value: object, where: str) -> Mapping[str, Any]:
    """A JSON object.

    Raises:
        ServiceError: The value is something else.
    """
    if not isinstance(value, Mapping):
        raise bad_request(f"`{where}` is not an object.")
    return value


def drop_empty(document: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping without the members that have no value."""
    return {name: value for name, value in document.items() if value is not None and value != {}}


def _squash(name: str) -> str:
    return name.replace("_", "").lower()


MODES = {
    "readonlymount": "ro_mount",
    "readwritemount": "rw_mount",
    "mount": "ro_mount",
    "download": "download",
    "upload": "upload",
    "direct": "direct",
    "evalmount": "eval_mount",
    "evaldownload": "eval_download",
}
# The type of data by its name without underscores: older versions of the interface write `UriFolder`.
TYPES = {
    name.replace("_", ""): name
    for name in ("uri_file", "uri_folder", "mltable", "custom_model", "mlflow_model", "triton_model")
}
DEFAULT_TYPE = "uri_folder"


def read_inputs(inputs: Mapping[str, Any], where: str, references: References) -> dict[str, Any]:
    """The ``inputs:`` of a job or node."""
    read = {name: _read_input(value, f"{where}.{name}", references) for name, value in inputs.items()}
    return {name: value for name, value in read.items() if value is not None}


def _read_input(value: Any, where: str, references: References) -> Any:
    if not isinstance(value, Mapping):  # of a pipeline component's definition
        return value
    body = Body(value, where)
    kind = _squash(body.text("jobInputType") or body.text("type") or "literal")
    mode = _read_mode(body)
    if kind == "literal":
        text = body.get("value")
        if isinstance(text, str) and mode is not None:
            return {"path": text, "mode": mode}
        return text
    if kind not in TYPES:
        raise bad_request(f"`{where}` is of type `{kind[:40]}`, which is not a type of an input.")
    reference = body.text("uri") or body.text("path")
    if not reference:
        raise bad_request(f"`{where}` has no `uri`.")
    return drop_empty({"type": TYPES[kind], "path": references.data(reference), "mode": mode})


def read_outputs(outputs: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The ``outputs:`` of a job or node."""
    return {name: _read_output(value, f"{where}.{name}") for name, value in outputs.items()}


def _read_output(value: Any, where: str) -> Any:
    if value is None or isinstance(value, str):
        return value or {"type": DEFAULT_TYPE}
    body = Body(value, where)
    settings = {
        "mode": _read_mode(body),
        "name": body.text("assetName") or body.text("name"),
        "version": body.text("assetVersion") or body.text("version"),
    }
    bound = body.text("value")
    if bound is not None:
        return {"path": bound, **drop_empty(settings)} if drop_empty(settings) else bound
    return drop_empty({"type": output_type(body), **settings, "path": body.text("uri")})


def output_type(body: Body) -> str:
    """The type of an output; without one it is a folder."""
    kind = _squash(body.text("jobOutputType") or body.text("type") or DEFAULT_TYPE)
    return TYPES.get(kind, DEFAULT_TYPE)


def _read_mode(body: Body) -> str | None:
    """How data reaches the job, as YAML writes it; None if the body leaves it open."""
    mode = body.text("mode")
    return None if mode is None else MODES.get(_squash(mode), mode.lower())


_COMPUTE = re.compile(r"/computes/([^/]+)\Z|\Aazureml:([^/]+)\Z", re.IGNORECASE)


@dataclass(slots=True)
class References:
    """What the YAML of one job refers to outside of its folder, by ids and names of a workspace."""

    workspace: Workspace
    assets: dict[str, Path] = field(default_factory=dict)  # by the reference that the YAML has
    computes: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def data(self, reference: str) -> str:
        """A reference to data, whose path is noted; data elsewhere is named by its address."""
        if "${{" in reference:
            return reference
        path = self.find_path(reference)
        if path is None:
            return self.find_address(reference) or reference
        self.assets[reference] = path
        return reference

    def code(self, reference: str | None) -> str | None:
        """The path of code, or the reference where it is not here."""
        if not reference:
            return None
        path = self.find_path(reference)
        return str(path) if path is not None else _with_prefix(reference)

    def compute(self, reference: str | None) -> str | None:
        """A compute as YAML names it; its size is noted."""
        if not reference or "${{" in reference:
            return reference or None
        match = _COMPUTE.search(reference)
        name = (match[1] or match[2]) if match is not None else reference
        if name in ("serverless", "local"):
            return None
        size = self.find_size(name)
        if size is not None:
            self.computes[name] = size
        return f"azureml:{name}"

    def environment(self, reference: str | None) -> Any:
        """An environment as YAML has it: with what it is built from, if the workspace knows that."""
        if not reference:
            return None
        properties = self.find_properties("environments", reference)
        return self._describe_environment(properties) or _with_prefix(reference)

    def _describe_environment(self, properties: Mapping[str, Any]) -> dict[str, Any] | None:
        """An environment's image, conda file and build context as YAML has them; None if it has none."""
        described: dict[str, Any] = {}
        if image := text_of(properties, "image"):
            described["image"] = image
        if conda := text_of(properties, "condaFile"):
            try:
                described["conda_file"] = yaml.safe_load(conda)
            except yaml.YAMLError:
                return None
        build = mapping_of(properties, "build")
        if (uri := text_of(build, "contextUri")) and (context := self.find_path(uri)) is not None:
            dockerfile = str(build.get("dockerfilePath") or "Dockerfile")
            described["build"] = {"path": str(context), "dockerfile_path": dockerfile}
        return described or None

    def find_properties(self, kind: str, reference: str) -> Mapping[str, Any]:
        """The properties of an asset by its id, short form or label; empty if the workspace lacks it."""
        # A name alone means its newest version.
        name = paths.parse_asset(reference) or AssetName(kind, reference.removeprefix("azureml:"), None)
        asset = paths.find_asset(self.workspace.database, kind, name) if name.kind in ("", kind) else None
        return {} if asset is None else asset.properties

    def find_path(self, reference: str) -> Path | None:
        """The path of data, code or a model on this machine, or None."""
        sync_for(self.workspace, reference)
        return paths.local_path(self.workspace, reference)

    def find_address(self, reference: str) -> str | None:
        """The address outside of the workspace that a data asset stands for, or None."""
        asset = paths.find_data(self.workspace, reference)
        address = text_of(asset.properties, "dataUri") if asset is not None else ""
        return address if classify(address) == "web" else None

    def find_size(self, compute: str) -> Mapping[str, Any] | None:
        """``instance_type`` and ``max_instances`` of a compute, as ``worldsize.yml`` has them, or None."""
        resource = get_resource(self.workspace.database, "computes", compute)
        body = {} if resource is None else resource.body
        settings = mapping_of(mapping_of(body, "properties"), "properties")  # of its type of compute
        size, learned = text_of(settings, "vmSize"), paths.project_settings(self.workspace).vm_sizes
        if not size or vm_sizes.lookup(size, learned) is None:
            return None
        most = mapping_of(settings, "scaleSettings").get("maxNodeCount")
        limit = {"max_instances": most} if isinstance(most, int) and most > 0 else {}
        return {"instance_type": size, **limit}


def _with_prefix(reference: str) -> str:
    """A reference as YAML writes it: with ``azureml:`` before an id of Azure Resource Manager."""
    return f"azureml:{reference}" if reference.startswith("/subscriptions/") else reference
