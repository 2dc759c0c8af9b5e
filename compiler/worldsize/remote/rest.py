"""Reads a workspace by its REST interfaces: the management API, the run history, MLflow and logs.

They are those that azure-ai-ml and azureml-mlflow use
(https://learn.microsoft.com/rest/api/azureml). Nothing is written here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from worldsize.remote.names import WorkspaceNames

if TYPE_CHECKING:
    from azure.core import PipelineClient
    from azure.core.credentials import TokenCredential

API_VERSION = "2024-10-01"
MAX_PAGES = 1_000  # of one list; a service that never ends a list must not hold us
_CLOUDS = {"AzureChinaCloud": "AZURE_CHINA_CLOUD", "AzureUSGovernment": "AZURE_US_GOVERNMENT"}


class Rest:
    """A workspace's interfaces for reading. It may be used by several threads."""

    def __init__(self, names: WorkspaceNames) -> None:
        self.names = names

    @cached_property
    def credential(self) -> TokenCredential:
        """What azure-identity finds: environment variables, a managed identity, the login of ``az``.

        In a job of Azure ML it is the identity that the job runs by: that of its user, if it has
        ``identity: {type: user_identity}``, else the managed one of its cluster.
        """
        from azure.identity import ChainedTokenCredential, DefaultAzureCredential, ManagedIdentityCredential

        logging.getLogger("azure.identity").setLevel(logging.CRITICAL)  # it logs what it then raises
        if "OBO_ENDPOINT" in os.environ:
            from azure.ai.ml.identity import AzureMLOnBehalfOfCredential

            return cast("TokenCredential", AzureMLOnBehalfOfCredential())
        if "DEFAULT_IDENTITY_CLIENT_ID" not in os.environ:
            return DefaultAzureCredential()
        managed = ManagedIdentityCredential(client_id=os.environ["DEFAULT_IDENTITY_CLIENT_ID"])
        return ChainedTokenCredential(managed, DefaultAzureCredential())

    @cached_property
    def _endpoints(self) -> Any:
        from azure.core import AzureClouds
        from azure.mgmt.core.tools import get_arm_endpoints

        name = _CLOUDS.get(os.environ.get("AZUREML_CURRENT_CLOUD", ""), "AZURE_PUBLIC_CLOUD")
        return get_arm_endpoints(AzureClouds[name])

    @cached_property
    def _client(self) -> PipelineClient[Any, Any]:
        from azure.core.pipeline.policies import BearerTokenCredentialPolicy

        scopes = self._endpoints["credential_scopes"]
        return _make_client(
            self._endpoints["resource_manager"], BearerTokenCredentialPolicy(self.credential, *scopes)
        )

    @cached_property
    def _anonymous(self) -> PipelineClient[Any, Any]:
        """For addresses that carry their own signature: storage refuses a second credential beside it."""
        return _make_client(self._endpoints["resource_manager"])

    @cached_property
    def _workspace(self) -> Mapping[str, Any]:
        workspace: Mapping[str, Any] = self.manage("")
        return workspace

    @cached_property
    def _services(self) -> Mapping[str, str]:
        """The addresses of the workspace's other interfaces."""
        services: Mapping[str, str] = self._get(self._workspace["properties"]["discoveryUrl"])
        return services

    def _get(self, url: str, parameters: Mapping[str, str] | None = None) -> Any:
        from azure.core.rest import HttpRequest

        response = self._client.send_request(HttpRequest("GET", url, params=dict(parameters or {})))
        response.raise_for_status()
        return response.json()

    def manage(self, path: str, **parameters: str) -> Any:
        """GET of the management API below the workspace, such as ``/jobs/NAME``.

        Raises:
            HttpResponseError: The service refuses it.
        """
        return self._get(self._managed(path), {"api-version": API_VERSION, **parameters})

    def _managed(self, path: str) -> str:
        return f"{self._endpoints['resource_manager'].rstrip('/')}{quote(self.names.id)}{path}"

    def of_location(self, kind: str) -> Any:
        """What the service has in the workspace's location: ``vmSizes`` or ``usages``."""
        base = self._endpoints["resource_manager"].rstrip("/")
        location = quote(str(self._workspace["location"]).replace(" ", "").lower())
        path = f"/providers/Microsoft.MachineLearningServices/locations/{location}/{kind}"
        subscription = quote(f"/subscriptions/{self.names.subscription}")
        return self._get(f"{base}{subscription}{path}", {"api-version": API_VERSION})

    def _pages(self, url: str, parameters: Mapping[str, str]) -> Iterator[Any]:
        """The pages of a list, however its service names the next one."""
        query = dict(parameters)
        for _ in range(MAX_PAGES):
            page = self._get(url, query)
            yield page
            if following := page.get("nextLink"):
                url, query = following, {}
            elif token := page.get("continuationToken"):
                query = {"$continuationToken": token}
            elif token := page.get("next_page_token"):
                query["page_token"] = str(token)
            else:
                return

    def list(self, path: str, **parameters: str) -> Iterator[Any]:
        """The items of a list of the management API, page by page."""
        for page in self._pages(self._managed(path), {"api-version": API_VERSION, **parameters}):
            yield from page.get("value") or []

    def _history(self, path: str) -> str:
        return f"{self._service('history')}/history/v1.0{quote(self.names.id)}{path}"

    def _tracking(self, operation: str) -> str:
        base = f"{self._service('mlflow')}/mlflow/v2.0{quote(self.names.id)}"
        return f"{base}/api/2.0/mlflow/{operation}"

    def _service(self, name: str) -> str:
        return (self._services.get(name) or self._services["api"]).rstrip("/")

    def run(self, name: str) -> Any:
        """A run of the run history: a job, a step of a pipeline, or a trial of a sweep."""
        return self._get(self._history(f"/runs/{quote(name, safe='')}"))

    def run_details(self, name: str) -> Any:
        """The details of a run: its status, its error, and the addresses of its logs."""
        return self._get(self._history(f"/runs/{quote(name, safe='')}/details"))

    def children(self, name: str) -> Iterator[Any]:
        """The runs whose parent is ``name``."""
        for page in self._pages(self._history(f"/runs/{quote(name, safe='')}/children"), {}):
            yield from page.get("value") or []

    def tracked_run(self, name: str) -> Any:
        """The run as MLflow knows it: its metrics and parameters."""
        return self._get(self._tracking("runs/get"), {"run_id": name})["run"]

    def metric_history(self, name: str, metric: str) -> Iterator[Any]:
        """The values of one metric that a run has logged to MLflow, page by page."""
        query = {"run_id": name, "metric_key": metric, "max_results": "10000"}
        for page in self._pages(self._tracking("metrics/get-history"), query):
            yield from page.get("metrics") or []

    def artifact(self, name: str, path: str) -> bytes | None:
        """A file that a run has logged to MLflow; None if there is none, or if the service refuses it."""
        from azure.core.exceptions import HttpResponseError

        base = self._service("history")
        folder = f"/artifact/v2.0{quote(self.names.id)}/artifacts/ExperimentRun/dcid.{quote(name, safe='')}"
        try:
            content = self._get(f"{base}{folder}/contentinfo", {"path": path})
            return self.read_bytes(str(content["contentUri"])) or None
        except (HttpResponseError, KeyError, TypeError):
            return None

    def read_bytes(self, url: str, start: int = 0) -> bytes:
        """The content of a signed address from a position on; empty if there is no more."""
        from azure.core.rest import HttpRequest

        headers = {"x-ms-range": f"bytes={start}-", "x-ms-version": "2021-12-02"}
        response = self._anonymous.send_request(HttpRequest("GET", url, headers=headers))
        if response.status_code in (404, 416):  # nothing is written yet, or nothing more
            return b""
        response.raise_for_status()
        content = bytes(response.content)
        return content if response.status_code == 206 else content[start:]


def _make_client(base: str, *policies: Any) -> PipelineClient[Any, Any]:
    from azure.core import PipelineClient
    from azure.core.pipeline.policies import RedirectPolicy, RetryPolicy, UserAgentPolicy

    return PipelineClient(
        base, policies=[UserAgentPolicy("worldsize"), RedirectPolicy(), RetryPolicy(), *policies]
    )
