"""Jobs as the management API shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from worldsize.serving.jobs.job_files import list_outputs, output_uri
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.workspace import Scope, Workspace

USER = {"createdBy": "worldsize", "createdByType": "User"}
_NULLS = ("description", "computeId", "identity", "notificationSetting", "resources", "queueSettings")


def show_job(workspace: Workspace, scope: Scope, job: JobRecord) -> dict[str, Any]:
    """The resource of a job: what was submitted, completed with what the service knows."""
    properties = {**_defaults(job), **job.properties}
    properties |= {
        "status": job.status,
        "jobType": job.type,
        "displayName": job.display_name,
        "experimentName": job.experiment,
        "isArchived": job.archived,
        "services": _show_services(workspace, scope, job),
        "inputs": properties.get("inputs") or {},
        "outputs": show_outputs(scope, job),
        "properties": run_properties(job),
        "tags": properties.get("tags") or {},
    }
    if job.parent is not None:
        properties["parentJobName"] = job.parent
    return {
        "id": f"{scope.id}/jobs/{job.name}",
        "name": job.name,
        "type": "Microsoft.MachineLearningServices/workspaces/jobs",
        "properties": properties,
        "systemData": {"createdAt": job.created, **USER},
    }


def _defaults(job: JobRecord) -> dict[str, Any]:
    """Keys that clients read and bodies may lack."""
    defaults: dict[str, Any] = dict.fromkeys(_NULLS)
    command: dict[str, Any] = {
        "command": "",
        "environmentId": "",
        "environmentVariables": {},
        "codeId": None,
    }
    if job.type == "Command":
        defaults |= command
    if job.type == "Sweep":  # of a node: clients read these of a job
        sampling = {"samplingAlgorithmType": "Random"}
        defaults |= {"trial": command, "searchSpace": {}, "samplingAlgorithm": sampling, "objective": None}
        defaults |= {"earlyTermination": None, "limits": None}
    if job.type == "Pipeline":
        defaults |= {"jobs": {}, "settings": {}, "sourceJobId": None}
    return defaults


def _show_services(workspace: Workspace, scope: Scope, job: JobRecord) -> dict[str, Any]:
    """The addresses of a job: its page, and where its metrics are."""
    host = workspace.endpoints.api.partition("://")[2]
    tracking, studio = f"azureml://{host}/mlflow/v1.0{scope.id}?", page_address(workspace, scope, job)
    nothing = dict.fromkeys(("status", "errorMessage", "properties", "nodes"))
    return {
        name: {"jobServiceType": name, "port": None, "endpoint": endpoint, **nothing}
        for name, endpoint in (("Tracking", tracking), ("Studio", studio))
    }


def page_address(workspace: Workspace, scope: Scope, job: JobRecord) -> str:
    """The address of a job's page; clients append other parameters to it with ``&``."""
    return f"{workspace.endpoints.page.rstrip('/')}/jobs/{quote(job.name)}?wsid={scope.id}"


def show_outputs(scope: Scope, job: JobRecord) -> dict[str, Any]:
    """The outputs with the places where they will be; the default one has the logs."""
    declared = job.properties.get("outputs")
    shown: dict[str, Any] = {}
    for output in list_outputs(job):
        settings = declared.get(output.name) if isinstance(declared, Mapping) else None
        settings = settings if isinstance(settings, Mapping) else {}
        shown[output.name] = {
            "description": None,
            "mode": "ReadWriteMount",
            **settings,
            "jobOutputType": output.type,
            "uri": output.uri or output_uri(scope, job.name, output.name, output.type),
        }
    default = {
        "description": None,
        "uri": f"azureml://datastores/workspaceartifactstore/ExperimentRun/dcid.{job.name}",
        "mode": "ReadWriteMount",
        "jobOutputType": "uri_folder",
    }
    return {**shown, "default": default}


def run_properties(job: JobRecord) -> dict[str, str]:
    """The properties of a job's run, with those that the service adds."""
    properties = job.properties.get("properties")
    submitted = (
        {str(name): str(value) for name, value in properties.items()}
        if isinstance(properties, Mapping)
        else {}
    )
    kind = {"Pipeline": "azureml.PipelineRun", "Sweep": "azureml.HyperDrive"}.get(
        job.type, "azureml.CommandRun"
    )
    added = {"azureml.runsource": kind, "ContentSnapshotId": job.name, "_azureml.ClusterName": ""}
    if job.parent is not None:
        added |= {"azureml.pipelinerunid": job.root, "azureml.moduleName": job.display_name}
    return {**added, **submitted}
