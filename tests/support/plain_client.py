"""Plain HTTP requests to a served workspace, through its proxy, on one kept connection."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from typing_extensions import Self

MANAGEMENT, BLOBS = "management.azure.com", "worldsize.blob.core.windows.net"
WORKSPACE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"
VERSION = "api-version=2024-01-01-preview"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class PlainClient:
    """One connection to one of Azure's hosts, with the token of the environment's identity."""

    def __init__(self, environment: Mapping[str, str], host: str = MANAGEMENT, timeout: float = 30) -> None:
        self.environment, self.host = environment, host
        proxy = urlsplit(environment["HTTPS_PROXY"])
        assert proxy.hostname is not None
        login = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        context = ssl.create_default_context(cafile=environment["REQUESTS_CA_BUNDLE"])
        self.connection = http.client.HTTPSConnection(
            proxy.hostname, proxy.port, timeout=timeout, context=context
        )
        self.connection.set_tunnel(host, 443, {"Proxy-Authorization": f"Basic {login}"})
        self.token = find_token(environment)

    def send(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request; ``body`` is bytes, or what becomes JSON."""
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        try:
            self.connection.request(method, path, body, sent)
            response = self.connection.getresponse()
        except (
            http.client.RemoteDisconnected,
            ConnectionResetError,
        ):  # it was kept for longer than the server does
            if method != "GET":
                raise
            self.connection.close()
            self.connection.request(method, path, body, sent)
            response = self.connection.getresponse()
        return Answer(response.status, dict(response.headers), response.read())

    def put(self, kind: str, name: str, properties: Mapping[str, Any]) -> Answer:
        """Create a resource of the workspace."""
        path = f"{WORKSPACE}/{kind}/{quote(name)}?{VERSION}"
        return self.send("PUT", path, {"properties": properties})

    def get(self, kind: str, name: str = "", query: str = "") -> Answer:
        """Show a resource of the workspace, or list those of a kind."""
        path = f"{WORKSPACE}/{kind}/{quote(name)}" if name else f"{WORKSPACE}/{kind}"
        return self.send("GET", f"{path}?{VERSION}{query}")

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find_token(environment: Mapping[str, str]) -> str:
    """A token of the environment's managed identity, as DefaultAzureCredential asks for it."""
    address = (
        f"{environment['IDENTITY_ENDPOINT']}?api-version=2019-08-01&resource=https://management.azure.com"
    )
    request = urllib.request.Request(address, headers={"X-IDENTITY-HEADER": environment["IDENTITY_HEADER"]})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        token: str = json.load(response)["access_token"]
    return token


def command_job(command: str, **more: Any) -> dict[str, Any]:
    """The properties of a job of one command."""
    return {
        "jobType": "Command",
        "command": command,
        "environmentId": "azureml:any@latest",
        "experimentName": "Default",
        **more,
    }
