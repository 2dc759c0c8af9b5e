"""A dry run: azure-ai-ml does everything that it does to submit, and nothing leaves this machine.

Every request ends in :class:`Recorder`, which keeps the bodies and answers as an empty workspace does. What
only the service knows is a placeholder: the version behind a label is ``latest``.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from requests import PreparedRequest, Response
    from requests.adapters import HTTPAdapter

ACCOUNT, CONTAINER = "dryrun", "azureml-blobstore"
MANAGEMENT = "/providers/microsoft.machinelearningservices/workspaces/"
_MET = {"createdAt": "1970-01-01T00:00:00Z", "createdBy": "dry run", "createdByType": "User"}
# The client reads the component behind a label, and sends only its id.
_COMPONENT = {
    "name": "latest",
    "version": "latest",
    "type": "command",
    "command": "true",
    "environment": "azureml:latest:1",
}


class Answer(NamedTuple):
    """A status and a document; None is an empty body."""

    status: int
    document: Any = None


class StaticCredential:
    """A credential whose token no service accepts; it has the form that the client reads."""

    def get_token(self, *scopes: str, **_options: Any) -> Any:
        """A token without a signature, for the resource of the first scope."""
        from azure.core.credentials import AccessToken

        def encode(document: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")

        expires = int(time.time()) + 3600
        audience = scopes[0].removesuffix("/.default") if scopes else ""
        claims = {"aud": audience, "tid": "dry-run", "oid": "dry-run", "exp": expires}
        return AccessToken(f"{encode({'alg': 'none'})}.{encode(claims)}.{encode('')}", expires)


class Recorder:
    """Keeps the bodies of the requests to the management API, and the names of uploaded files."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.uploads: list[str] = []
        self._stored: dict[str, Any] = {}

    def answer(self, method: str, url: str, body: bytes) -> Answer:
        """Answer one request."""
        parts = urlsplit(url)
        path = unquote(parts.path)
        if ".blob." in parts.netloc:
            return self._answer_storage(method, path, parse_qs(parts.query))
        if MANAGEMENT not in path.lower():
            return Answer(200, {}) if method == "POST" else _missing(path)  # telemetry, cloud metadata
        below = path[path.lower().index(MANAGEMENT) + len(MANAGEMENT) :].partition("/")[2]
        if method == "GET":
            return self._read(path, below, is_list="hash=" in parts.query)
        if method == "POST":
            return _answer_action(below)
        document = json.loads(body or b"{}")
        self.requests.append({"method": method, "path": path, "body": document})
        self._stored[path.lower()] = {
            "id": path,
            "name": path.rpartition("/")[2],
            "systemData": _MET,
            **document,
        }
        return Answer(200, self._stored[path.lower()])

    def _answer_storage(self, method: str, path: str, query: dict[str, list[str]]) -> Answer:
        if method != "PUT":
            return Answer(404)
        if "comp" not in query or query["comp"] == ["blocklist"]:
            self.uploads.append(path.removeprefix(f"/{CONTAINER}/"))
        return Answer(201 if query.get("comp") != ["metadata"] else 200)

    def _read(self, path: str, below: str, *, is_list: bool) -> Answer:
        if path.lower() in self._stored:
            return Answer(200, self._stored[path.lower()])
        return Answer(200, {"value": []}) if is_list else _answer_read(path, below)


def _answer_read(path: str, below: str) -> Answer:
    """The answer to what is asked by GET, as if everything that a job refers to was there."""
    kind, _, rest = below.partition("/")
    document: dict[str, Any] = {"id": path, "name": path.rpartition("/")[2], "properties": {}}
    if kind == "datastores":
        document["properties"] = _datastore()
    elif kind in ("components", "data", "environments", "models") and "/" not in rest:
        document["properties"] = {"latestVersion": "latest"}
    elif rest.endswith("/versions"):  # of which the newest is asked for
        properties = {"componentSpec": _COMPONENT} if kind == "components" else {}
        newest = {"id": f"{path}/latest", "name": "latest", "properties": properties, "systemData": _MET}
        document = {"value": [newest]}
    elif kind not in ("", "computes") and "/versions/" not in rest:
        return _missing(path)
    return Answer(200, document)


def _answer_action(below: str) -> Answer:
    """The answer to what is asked by POST: where to upload, and with which signature."""
    if below.lower().endswith("startpendingupload"):
        name = below.split("/")[1]
        uri = f"https://{ACCOUNT}.blob.core.windows.net/{CONTAINER}/{name}"
        return Answer(
            200,
            {
                "pendingUploadId": name,
                "pendingUploadType": "TemporaryBlobReference",
                "blobReferenceForConsumption": {
                    "blobUri": uri,
                    "storageAccountArmId": "",
                    "credential": {"credentialType": "SAS", "sasUri": f"{uri}?sig=dryrun"},
                },
            },
        )
    if below.lower().endswith("listsecrets"):
        return Answer(200, {"secretsType": "Sas", "sasToken": "sig=dryrun"})
    return Answer(200, {})


def _datastore() -> dict[str, Any]:
    return {
        "datastoreType": "AzureBlob",
        "accountName": ACCOUNT,
        "containerName": CONTAINER,
        "endpoint": "core.windows.net",
        "protocol": "https",
        "isDefault": True,
        "credentials": {"credentialsType": "Sas"},
    }


def _missing(path: str) -> Answer:
    return Answer(404, {"error": {"code": "ResourceNotFound", "message": f"a dry run does not know {path}"}})


@contextlib.contextmanager
def recording() -> Iterator[Recorder]:
    """Let every request of this process that the library requests sends end in a recorder."""
    from requests.adapters import HTTPAdapter

    recorder, original = Recorder(), HTTPAdapter.send
    setattr(HTTPAdapter, "send", _make_send(recorder))  # noqa: B010 - mypy refuses an assignment to a method
    try:
        yield recorder
    finally:
        setattr(HTTPAdapter, "send", original)  # noqa: B010 - as above


def _make_send(recorder: Recorder) -> Callable[..., Response]:
    def send(adapter: HTTPAdapter, request: PreparedRequest, **_options: Any) -> Response:
        from urllib3 import HTTPResponse

        status, document = recorder.answer(str(request.method), str(request.url), _read_body(request.body))
        content = b"" if document is None else json.dumps(document).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        raw = HTTPResponse(io.BytesIO(content), headers, status, preload_content=False)
        return adapter.build_response(request, raw)

    return send


def _read_body(body: object) -> bytes:
    """The content of a request; an uploaded file, which is a stream, is not read."""
    if isinstance(body, str):
        return body.encode()
    return body if isinstance(body, bytes) else b""
