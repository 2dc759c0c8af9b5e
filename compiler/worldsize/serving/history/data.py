"""The addresses behind the ids of outputs and of data assets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.serving.control.uris import parse_asset
from worldsize.serving.database import use_each
from worldsize.serving.errors import bad_request
from worldsize.serving.history.runs import ASSET_TYPES
from worldsize.serving.jobs import records
from worldsize.serving.jobs.outputs import list_outputs, output_uri
from worldsize.serving.tracking.models import find_asset
from worldsize.serving.workspace import Scope, Workspace

MAX_IDS = 1000  # of one request
# The id of an output: `…/data/azureml_{job}_output_{name}/versions/1`.
_BEFORE, _BETWEEN, _AFTER = "/data/azureml_", "_output_", "/versions/1"


def resolve_assets(workspace: Workspace, scope: Scope, ids: list[str]) -> dict[str, dict[str, Any]]:
    """The address and type of each asset by its id; ids that name nothing are left out."""
    resolved = use_each("asset", ids, lambda each: (each, _resolve(workspace, scope, each)), str)
    return {each: found for each, found in resolved if found is not None}


def _resolve(workspace: Workspace, scope: Scope, asset_id: str) -> dict[str, Any] | None:
    job_name, name_of_output = _parse_output(asset_id)
    job = records.get_job(workspace.database, job_name) if job_name else None
    if job is not None:
        output = next((each for each in list_outputs(job) if each.name == name_of_output), None)
        if output is None:
            return None
        uri = output_uri(scope, job.name, output.name, output.type)
        return {"uri": uri, "type": ASSET_TYPES.get(output.type, output.type)}
    name = parse_asset(asset_id)
    for kind, key, type_key in (("data", "dataUri", "dataType"), ("models", "modelUri", "modelType")):
        asset = find_asset(workspace, kind, name) if name is not None else None
        if asset is not None and name is not None and name.kind in ("", kind):
            return {"uri": asset.properties.get(key), "type": asset.properties.get(type_key)}
    return None


def _parse_output(asset_id: str) -> tuple[str, str]:
    """The job and the output that an id names; empty where it is the id of another asset."""
    name = asset_id.removesuffix(_AFTER).rpartition(_BEFORE)[2] if asset_id.endswith(_AFTER) else ""
    job, _, output = name.rpartition(_BETWEEN)
    return job, output


def read_ids(body: Mapping[str, Any]) -> list[str]:
    """The ids in the body of a request.

    Raises:
        ServiceError: 400, there are too many.
    """
    values = body.get("values")
    if isinstance(values, list) and len(values) > MAX_IDS:
        raise bad_request(f"`values` has {len(values):,} ids, of which {MAX_IDS:,} are allowed.")
    return [str(value) for value in values] if isinstance(values, list) else []
