"""Finds in the workspace what a submitted job refers to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldsize.azureml.references import classify
from worldsize.facts import vm_sizes
from worldsize.serving.control import assets, paths
from worldsize.serving.control.project import project_settings
from worldsize.serving.control.resources import get_resource
from worldsize.serving.control.uris import AssetName, parse_asset
from worldsize.serving.tracking import models
from worldsize.serving.workspace import Workspace


@dataclass(frozen=True, slots=True)
class WorkspaceLookup:
    """The assets and computes of a workspace."""

    workspace: Workspace

    def component(self, reference: str) -> Mapping[str, Any] | None:
        """The specification of a component, or None."""
        found = find_asset(self.workspace, "components", reference)
        specification = found.properties.get("componentSpec") if found is not None else None
        return specification if isinstance(specification, Mapping) else None

    def environment(self, reference: str) -> Mapping[str, Any] | None:
        """The properties of an environment, or None."""
        found = find_asset(self.workspace, "environments", reference)
        return found.properties if found is not None else None

    def path(self, reference: str) -> Path | None:
        """The path of data, code or a model, or None."""
        return paths.local_path(self.workspace, reference, models.find_asset)

    def web_address(self, reference: str) -> str | None:
        """The address outside of the workspace that a data asset stands for, or None."""
        found = paths.find_data(self.workspace, reference, models.find_asset)
        address = found.properties.get("dataUri") if found is not None else None
        return address if isinstance(address, str) and classify(address) == "web" else None

    def vm_size(self, compute: str) -> Mapping[str, Any] | None:
        """The size of a compute as ``worldsize.yml`` has it, or None."""
        found = get_resource(self.workspace.database, "computes", compute)
        outer = found.body.get("properties") if found is not None else None
        settings = outer.get("properties") if isinstance(outer, Mapping) else None  # of its type of compute
        if not isinstance(settings, Mapping):
            return None
        size = settings.get("vmSize")
        learned = project_settings(self.workspace).vm_sizes
        if not isinstance(size, str) or vm_sizes.lookup(size, learned) is None:
            return None
        scale = settings.get("scaleSettings")
        most = scale.get("maxNodeCount") if isinstance(scale, Mapping) else None
        described: dict[str, Any] = {"instance_type": size}
        if isinstance(most, int) and most > 0:
            described["max_instances"] = most
        return described


def find_asset(workspace: Workspace, kind: str, reference: str) -> assets.Asset | None:
    """The asset of an id, a short form or a label of the workspace; None if it is elsewhere or missing."""
    name = parse_asset(reference)
    if name is None:  # a name alone means its newest version
        name = AssetName(kind, reference.removeprefix("azureml:"), None)
    if name.kind not in ("", kind):
        return None
    return models.find_asset(workspace, kind, name)
