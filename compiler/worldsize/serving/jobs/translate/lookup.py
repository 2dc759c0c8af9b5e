"""What a translation asks of the workspace: what the ids in a body stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

_COMPUTE = re.compile(r"/computes/([^/]+)\Z|\Aazureml:([^/]+)\Z", re.IGNORECASE)


class Lookup(Protocol):
    """Finds assets by the ids that clients send: ids of Azure Resource Manager, labels, short forms."""

    def component(self, reference: str) -> Mapping[str, Any] | None:
        """The specification of a component, or None if the workspace does not have it."""

    def environment(self, reference: str) -> Mapping[str, Any] | None:
        """The properties of an environment, or None if the workspace does not have it."""

    def path(self, reference: str) -> Path | None:
        """The path of data, code or a model on this machine, or None."""

    def web_address(self, reference: str) -> str | None:
        """The address outside of the workspace that a data asset stands for, or None."""

    def vm_size(self, compute: str) -> Mapping[str, Any] | None:
        """``instance_type`` and ``max_instances`` of a compute, as ``worldsize.yml`` has them, or None."""


@dataclass(slots=True)
class References:
    """What the YAML of one job refers to outside of its folder."""

    lookup: Lookup
    assets: dict[str, Path] = field(default_factory=dict)  # by the reference that the YAML has
    computes: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def data(self, reference: str) -> str:
        """A reference to data, whose path is noted; data elsewhere is named by its address."""
        if "${{" in reference:
            return reference
        path = self.lookup.path(reference)
        if path is None:
            return self.lookup.web_address(reference) or reference
        self.assets[reference] = path
        return reference

    def code(self, reference: str | None) -> str | None:
        """The path of code, or the reference where it is not here."""
        if not reference:
            return None
        path = self.lookup.path(reference)
        return str(path) if path is not None else _with_prefix(reference)

    def compute(self, reference: str | None) -> str | None:
        """A compute as YAML names it; its size is noted."""
        if not reference or "${{" in reference:
            return reference or None
        match = _COMPUTE.search(reference)
        name = (match[1] or match[2]) if match is not None else reference
        if name in ("serverless", "local"):
            return None
        size = self.lookup.vm_size(name)
        if size is not None:
            self.computes[name] = size
        return f"azureml:{name}"

    def environment(self, reference: str | None) -> Any:
        """An environment as YAML has it: with what it is built from, if the workspace knows that."""
        if not reference:
            return None
        found = self.lookup.environment(reference)
        if found is None:
            return _with_prefix(reference)
        return describe_environment(found, self) or _with_prefix(reference)


def describe_environment(properties: Mapping[str, Any], references: References) -> dict[str, Any] | None:
    """An environment's image, conda file and build context as YAML has them; None if it has none."""
    import yaml  # of PyYAML, only for a conda file

    build, described = properties.get("build"), dict[str, Any]()
    if isinstance(properties.get("image"), str):
        described["image"] = properties["image"]
    conda = properties.get("condaFile")
    if isinstance(conda, str):
        try:
            described["conda_file"] = yaml.safe_load(conda)
        except yaml.YAMLError:
            return None
    if isinstance(build, Mapping) and isinstance(build.get("contextUri"), str):
        context = references.lookup.path(build["contextUri"])
        if context is not None:
            described["build"] = {
                "path": str(context),
                "dockerfile_path": str(build.get("dockerfilePath") or "Dockerfile"),
            }
    return described or None


def _with_prefix(reference: str) -> str:
    """A reference as YAML writes it: with ``azureml:`` before an id of Azure Resource Manager."""
    return f"azureml:{reference}" if reference.startswith("/subscriptions/") else reference
