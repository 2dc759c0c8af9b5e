"""Runs as the run history shows them: one for each job and each part of a job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from worldsize.serving.front.guard import sign_path
from worldsize.serving.jobs import job_files
from worldsize.serving.jobs.job_files import list_outputs
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.jobs.resource import page_address, run_properties
from worldsize.serving.workspace import ARTIFACT_STORE, CONTAINERS, LOCATION, Scope, Workspace

RUN_TYPES = {"Pipeline": "azureml.PipelineRun", "Sweep": "hyperdrive"}
# The types of assets in the words of the run history, which differ for models.
ASSET_TYPES = {"mlflow_model": "MLFlowModel", "custom_model": "CustomModel", "triton_model": "TritonModel"}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def show_run(workspace: Workspace, scope: Scope, job: JobRecord) -> dict[str, Any]:
    """The run of a job."""
    return {
        "runNumber": job.id,
        "rootRunId": job.root,
        "rootRunUuid": job.root,
        "runUuid": job.name,
        "runId": job.name,
        "parentRunId": job.parent,
        "parentRunUuid": job.parent,
        "experimentId": job.experiment,
        "experimentName": job.experiment,
        "status": job.status,
        "createdUtc": job.created,
        "startTimeUtc": job.started,
        "endTimeUtc": job.ended,
        "lastModifiedUtc": job.ended or job.started or job.created,
        "duration": _duration(job),
        "error": _show_error(job),
        "warnings": None,
        "displayName": job.display_name,
        "name": job.display_name,
        "description": _text(job, "description"),
        "dataContainerId": f"dcid.{job.name}",
        "hidden": job.archived,
        "runType": RUN_TYPES.get(job.type, "azureml.StepRun" if job.parent else "azureml.commandjob"),
        "runTypeV2": {"orchestrator": None, "traits": [], "attribution": None, "computeType": None},
        "properties": run_properties(job),
        "tags": _texts(job, "tags"),
        "inputs": {},
        "outputs": show_outputs(scope, job),
        "target": _text(job, "computeId"),
        "createdBy": {"userName": "worldsize"},
        "services": {"Studio": {"endpoint": page_address(workspace, scope, job)}},
    }


def show_details(workspace: Workspace, scope: Scope, job: JobRecord) -> dict[str, Any]:
    """The details of a run, which clients ask for again and again while they stream its logs."""
    run = show_run(workspace, scope, job)
    run["createdTimeUtc"] = job.created
    run["logFiles"] = _show_logs(workspace, job)
    run["runDefinition"] = {}
    run["submittedBy"] = "worldsize"
    return run


def _show_logs(workspace: Workspace, job: JobRecord) -> dict[str, str]:
    """The signed addresses of a run's logs by their paths."""
    container = CONTAINERS[ARTIFACT_STORE]
    signature = sign_path(workspace, container)
    prefix = f"{workspace.endpoints.blob}/{container}/{job_files.artifacts_prefix(job.name)}"
    logs = job_files.list_logs(workspace.home, job.name)
    return {log: f"{prefix}/{quote(log)}?{signature}" for log in logs}


def _show_error(job: JobRecord) -> dict[str, Any] | None:
    if job.error_message is None:
        return None
    error = {
        "code": job.error_code or "UserError",
        "message": job.error_message,
        "messageParameters": {},
        "details": [],
    }
    return {"error": error, "time": job.ended, "componentName": "worldsize"}


def show_outputs(scope: Scope, job: JobRecord) -> dict[str, Any]:
    """The ids of a run's outputs, under which their addresses are asked for.

    A model is said to be the folder that it is: azure-ai-ml 1.35 fails to ask for the address of a model
    (`BatchGetResolvedUrisDto` does not take the argument that it gives).
    """
    return {
        output.name: {
            "assetId": _output_id(scope, job.name, output.name),
            "type": "uri_folder" if output.type in ASSET_TYPES else output.type,
        }
        for output in list_outputs(job)
    }


def _output_id(scope: Scope, job: str, output: str) -> str:
    """The id of the asset that the service makes of an output."""
    return (
        f"azureml://locations/{LOCATION}/workspaces/{scope.workspace}"
        f"/data/azureml_{job}_output_{output}/versions/1"
    )


def _duration(job: JobRecord) -> str | None:
    if job.started is None:
        return None
    start = datetime.fromisoformat(job.started.replace("Z", "+00:00"))
    end = datetime.now(timezone.utc)
    if job.ended is not None:
        end = datetime.fromisoformat(job.ended.replace("Z", "+00:00"))
    days = (end - start).days
    clock = (_EPOCH + max(end - start, _EPOCH - _EPOCH)).strftime("%H:%M:%S.%f")
    return f"{days}.{clock}" if days > 0 else clock


def _text(job: JobRecord, name: str) -> str | None:
    value = job.properties.get(name)
    return value if isinstance(value, str) else None


def _texts(job: JobRecord, name: str) -> dict[str, str]:
    values = job.properties.get(name)
    return {str(key): str(value) for key, value in values.items()} if isinstance(values, Mapping) else {}
