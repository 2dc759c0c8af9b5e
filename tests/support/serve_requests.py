"""Requests that a client could send to a served workspace, one of each kind, before they are spoilt."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

WORKSPACE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"
MANAGEMENT, API = "management.azure.com", "eastus.api.azureml.ms"
BLOBS, LOGIN = "worldsize.blob.core.windows.net", "login.microsoftonline.com"


@dataclass
class Request:
    """A request that a client could send, before it is spoilt."""

    method: str
    host: str
    path: str
    body: Any = None
    query: str = "api-version=2024-01-01-preview"
    headers: dict[str, str] = field(default_factory=dict)

    def head(self, token: str | None, length: int | None) -> bytes:
        """The request's line and fields."""
        path = f"{self.path}?{self.query}" if self.query else self.path
        fields = {"Host": self.host, "Connection": "close", **self.headers}
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        if length is not None:
            fields.setdefault("Content-Length", str(length))
        lines = [f"{self.method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n"

    def encode(self, token: str | None) -> bytes:
        """All its bytes."""
        content = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        return self.head(token, len(content)) + content if self.body is not None else self.head(token, None)


def _put(kind: str, name: str, properties: dict[str, Any]) -> Request:
    return Request("PUT", MANAGEMENT, f"{WORKSPACE}/{kind}/{name}", {"properties": properties})


JOB = {"jobType": "Command", "command": "true", "environmentId": "azureml:any@latest", "experimentName": "x"}
COMPONENT = {
    "name": "c",
    "version": "1",
    "type": "command",
    "command": "true ${{inputs.a}}",
    "environment": "azureml:any@latest",
    "inputs": {"a": {"type": "integer", "default": "1", "optional": True}},
    "outputs": {"o": {"type": "uri_folder"}},
    "distribution": {"type": "pytorch", "process_count_per_instance": 1},
    "resources": {"instance_count": 1},
}
NODE = {"type": "command", "componentId": f"{WORKSPACE}/components/c/versions/1", "inputs": {}, "outputs": {}}
PIPELINE = {
    "jobType": "Pipeline",
    "jobs": {"a": NODE},
    "inputs": {"i": {"jobInputType": "literal", "value": "1"}},
    "outputs": {"o": {"jobOutputType": "uri_folder"}},
    "settings": {"default_compute": "cpu"},
    "tags": {"a": "b"},
}
SWEEP = {
    "jobType": "Sweep",
    "trial": JOB,
    "objective": {"goal": "Maximize", "primaryMetric": "m"},
    "searchSpace": {"a": ["choice", [[1, 2]]]},
    "samplingAlgorithm": {"samplingAlgorithmType": "Random"},
    "limits": {"jobLimitsType": "Sweep", "maxTotalTrials": 1},
}
TRIGGER = {
    "triggerType": "Recurrence",
    "frequency": "Week",
    "interval": 1,
    "startTime": "2030-01-01T00:00:00",
    "timeZone": "UTC",
    "schedule": {"hours": [1], "minutes": [2], "weekDays": ["Monday"], "monthDays": None},
}
COMPUTE = {
    "computeType": "AmlCompute",
    "properties": {
        "vmSize": "STANDARD_DS3_V2",
        "vmPriority": "Dedicated",
        "scaleSettings": {"maxNodeCount": 2, "minNodeCount": 0, "nodeIdleTimeBeforeScaleDown": "PT120S"},
    },
}
_RUNS = f"/history/v1.0{WORKSPACE}"
_MLFLOW = f"/mlflow/v2.0{WORKSPACE}/api/2.0/mlflow"

REQUESTS: tuple[Request, ...] = (
    Request("GET", MANAGEMENT, WORKSPACE),
    *(
        Request(
            "GET", MANAGEMENT, f"{WORKSPACE}/{kind}", query="api-version=1&listViewType=All&$skip=0&$top=5"
        )
        for kind in (
            "jobs",
            "data",
            "models",
            "components",
            "environments",
            "codes",
            "schedules",
            "computes",
            "datastores",
        )
    ),
    _put(
        "data/d/versions",
        "1",
        {"dataType": "uri_folder", "dataUri": "azureml://datastores/workspaceblobstore/paths/a/", "tags": {}},
    ),
    _put(
        "models/m/versions",
        "1",
        {"modelType": "custom_model", "modelUri": "azureml://jobs/j/outputs/o/paths/", "flavors": {}},
    ),
    _put("environments/e/versions", "1", {"image": "ubuntu", "condaFile": "a: b", "osType": "Linux"}),
    _put("components/c/versions", "1", {"componentSpec": COMPONENT, "description": "", "isAnonymous": False}),
    _put(
        "codes/c/versions",
        "1",
        {"codeUri": f"https://{BLOBS}/azureml-blobstore/code", "properties": {"hash_sha256": "0"}},
    ),
    Request(
        "POST",
        MANAGEMENT,
        f"{WORKSPACE}/codes/c/versions/1/startPendingUpload",
        {"pendingUploadType": "TemporaryBlobReference"},
    ),
    Request("PUT", MANAGEMENT, f"{WORKSPACE}/computes/cpu", {"location": "eastus", "properties": COMPUTE}),
    _put(
        "datastores",
        "s",
        {
            "datastoreType": "AzureBlob",
            "accountName": "a",
            "containerName": "azureml-s",
            "credentials": {
                "credentialsType": "AccountKey",
                "secrets": {"secretsType": "AccountKey", "key": "a2V5"},
            },
        },
    ),
    _put(
        "connections",
        "n",
        {"category": "Git", "target": "https://example.com", "authType": "PAT", "credentials": {"pat": "x"}},
    ),
    _put(
        "schedules",
        "s",
        {
            "trigger": TRIGGER,
            "action": {"actionType": "CreateJob", "jobDefinition": PIPELINE},
            "isEnabled": False,
        },
    ),
    Request("POST", MANAGEMENT, f"{WORKSPACE}/schedules/s/trigger", {"scheduleTime": "2030-01-01T00:00:00Z"}),
    _put("jobs", "p", PIPELINE),
    _put("jobs", "w", SWEEP),
    Request("POST", MANAGEMENT, f"{WORKSPACE}/jobs/j/cancel"),
    Request(
        "POST",
        MANAGEMENT,
        f"{WORKSPACE}/datastores/workspaceblobstore/listSecrets",
        {"expirableSecret": True},
    ),
    Request("GET", API, f"{_RUNS}/runs/j/details"),
    Request("GET", API, f"{_RUNS}/runs/j/children"),
    Request("PATCH", API, f"{_RUNS}/runs/j", {"hidden": True, "tags": {}, "displayName": "x"}),
    Request("POST", API, f"{_RUNS}/rundata", {"runId": "j", "selectRunMetadata": True}),
    Request("POST", API, f"{_RUNS}/runs/query", {"filter": "RunId eq j", "top": 5}),
    Request(
        "POST",
        API,
        f"/data/v1.0{WORKSPACE}/dataversion/batchGetResolvedUris",
        {"values": ["azureml://locations/a/data/b/versions/1"]},
    ),
    Request("POST", API, f"{_MLFLOW}/runs/create", {"experiment_id": "0", "tags": []}),
    Request(
        "POST",
        API,
        f"{_MLFLOW}/runs/search",
        {"experiment_ids": ["0"], "max_results": 5, "filter": "a = 'b'"},
    ),
    Request(
        "POST",
        API,
        f"{_MLFLOW}/runs/log-metric",
        {"run_id": "j", "key": "a", "value": 1.5, "timestamp": 1, "step": 0},
    ),
    Request("GET", API, f"/artifact/v2.0{WORKSPACE}/experiments/0/runs/j/artifacts", query="path=a"),
    Request(
        "POST",
        API,
        f"/artifact/v2.0{WORKSPACE}/artifacts/LocalUpload/a/batch/metadata",
        {"paths": [{"path": "a/b"}]},
    ),
    Request("PUT", BLOBS, "/azureml-blobstore/fuzz/a", b"content", "", {"x-ms-blob-type": "BlockBlob"}),
    Request("PUT", BLOBS, "/azureml-blobstore/fuzz/b", b"content", "comp=block&blockid=YQ=="),
    Request(
        "PUT",
        BLOBS,
        "/azureml-blobstore/fuzz/b",
        b"<BlockList><Latest>YQ==</Latest></BlockList>",
        "comp=blocklist",
    ),
    Request(
        "PUT",
        BLOBS,
        "/azureml-blobstore/fuzz/a",
        None,
        "comp=metadata",
        {"x-ms-meta-a": "b", "Content-Length": "0"},
    ),
    Request(
        "PUT",
        BLOBS,
        "/azureml-blobstore/fuzz/c",
        None,
        "",
        {"x-ms-copy-source": f"https://{BLOBS}/azureml-blobstore/fuzz/a", "Content-Length": "0"},
    ),
    Request("GET", BLOBS, "/azureml-blobstore/fuzz/a", None, "", {"x-ms-range": "bytes=0-3"}),
    Request(
        "GET", BLOBS, "/azureml-blobstore", None, "restype=container&comp=list&prefix=fuzz/&maxresults=5"
    ),
    Request("DELETE", BLOBS, "/azureml-blobstore/fuzz/a", None, ""),
    Request(
        "POST",
        LOGIN,
        "/tenant/oauth2/v2.0/token",
        b"grant_type=client_credentials&client_id=a&client_secret=b",
        "",
    ),
    Request("GET", "vault.vault.azure.net", "/secrets/a"),
    Request("POST", "dc.services.visualstudio.com", "/v2.1/track", b"[]", ""),
)
