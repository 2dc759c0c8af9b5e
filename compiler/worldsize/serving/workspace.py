"""The workspace that every part of the server works on, and the names that requests give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worldsize.serving.database import Database
from worldsize.serving.home import Home

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
GROUP = "worldsize"
NAME = "local"
LOCATION = "eastus"
TENANT = "00000000-0000-0000-0000-000000000001"
ACCOUNT = "worldsize"  # of the storage
API_HOST = f"{LOCATION}.api.azureml.ms"
BLOB_HOST = f"{ACCOUNT}.blob.core.windows.net"
ARTIFACT_STORE, BLOB_STORE = "workspaceartifactstore", "workspaceblobstore"
CONTAINERS = {BLOB_STORE: "azureml-blobstore", ARTIFACT_STORE: "azureml"}  # container of each datastore


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of a request's workspace. One workspace answers to all names, as clients write them."""

    subscription: str = SUBSCRIPTION
    group: str = GROUP
    workspace: str = NAME

    @property
    def id(self) -> str:
        """The workspace's id in Azure Resource Manager."""
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
            f"/providers/Microsoft.MachineLearningServices/workspaces/{self.workspace}"
        )


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the server is reached: the page's address, and the hosts that its answers name.

    ``api`` and ``blob`` begin with ``https://``. They are Azure's own hosts where clients come through the
    proxy, and paths of the server where they come by ``ARM_CLOUD_METADATA_URL``.
    """

    page: str
    api: str = f"https://{API_HOST}"
    blob: str = f"https://{BLOB_HOST}"
    account: str = ACCOUNT  # of the datastores: azure-ai-ml builds the blob host from it


@dataclass(slots=True)
class Workspace:
    """One workspace: its files, its database, and the project whose ``worldsize.yml`` describes it."""

    home: Home
    database: Database
    endpoints: Endpoints
    project: Path  # the folder in which the server was started
    scope: Scope = field(default_factory=Scope)
    environment: str | None = None  # what interprets the steps of jobs; None for what `worldsize run` chooses
    client_variables: Mapping[str, str | None] = field(
        default_factory=dict
    )  # of the steps too; None: not set
    token: str = field(init=False, repr=False)  # the secret that signs tokens and opens the page

    def __post_init__(self) -> None:
        """Read the secret once: what becomes of its file later opens no door.

        Raises:
            NotAsWrittenError: Its file is not what was written.
        """
        self.token = self.home.secret("token")
