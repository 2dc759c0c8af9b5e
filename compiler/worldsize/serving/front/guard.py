"""Who may make which request to which of Azure's hosts, and what the server signs for it.

A connection through the proxy was authenticated when it was opened; its requests need a credential where
Azure wants one. A direct one can come from any program of this machine and from any web page that a browser
here shows, so it must name this server as its host, come from no other origin, and carry a secret that fits
what it asks for.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from worldsize.base.shown_text import escape, mark_code
from worldsize.serving.errors import ServiceError
from worldsize.serving.front.peers import admit
from worldsize.serving.storage.files import StorageError
from worldsize.serving.workspace import ACCOUNT, TENANT, Workspace

__all__ = ["Guard", "check_proxy_credentials", "cookie_name", "proxy_host", "sign_path"]

# What Azure answers to anybody: where services are; and what gives tokens, which checks what it is sent.
OPEN = ("/metadata/endpoints", "/discovery", "/msi/token", "/login/")
PROXY_USER = "worldsize"
# The management API, the services of a workspace, and storage: the page's cookie does not open them.
_API = re.compile(
    r"/+(?:(?:subscriptions|providers|telemetry|unknown|blob|mferp|genericasset|registrymanagement)(?:/|$)"
    r"|(?:history|mlflow|artifact|data|datastore|metric|modelregistry)/v\d\.\d/)",
    re.IGNORECASE,
)


# What a browser shows that has not opened the printed address.
_LOCKED = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>Not signed in · Worldsize</title>
<body style="font: 16px/1.5 system-ui, sans-serif; max-width: 36em; margin: 15vh auto; padding: 0 1em">
<h1>Not signed in</h1>
<p>This browser has not shown the secret of the workspace: {}.</p>
<p>In the folder of the workspace, <code>worldsize serve</code> prints the address again. After that this page
opens too.</p>
"""


def check_proxy_credentials(workspace: Workspace, header: str) -> bool:
    """Whether a ``Proxy-Authorization`` header has the proxy's user and secret."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        credentials = base64.b64decode(encoded.strip(), validate=True).decode("latin-1")
    except (binascii.Error, ValueError):
        return False
    return equal(credentials, f"{PROXY_USER}:{secret_text(workspace, 'proxy')}")


def proxy_host(connection: Mapping[str, object]) -> str | None:
    """The Azure host that a request through the proxy was meant for; ``connection`` is its scope of ASGI."""
    state = connection.get("state")
    host = state.get("proxy_host") if isinstance(state, dict) else None
    return host if isinstance(host, str) else None


def cookie_name(port: int, *, secure: bool = False) -> str:
    """The name of the page's cookie: browsers do not tell ports apart.

    Over TLS no other host can set a cookie of its name.
    """
    return f"{'__Host-' if secure else ''}worldsize_{port}"


class Guard:
    """Passes on the requests that are allowed, those through the proxy under the prefix of their host."""

    def __init__(self, app: ASGIApp, workspace: Workspace, port: int) -> None:
        self._app = app
        self._workspace = workspace
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self._origins = frozenset(
            f"{scheme}://{host}" for scheme in ("http", "https") for host in self._hosts
        )
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        try:
            answer = self._judge(request)
        except ServiceError as error:
            answer = error.response()
            if error.status == 401 and "text/html" in request.headers.get("accept", ""):
                answer = HTMLResponse(_LOCKED.format(mark_code(escape(error))), 401)
        if answer is None:
            await self._app(_add_prefix(scope), receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose(1008)(scope, receive, send)
        else:
            await answer(scope, receive, send)

    def _judge(self, request: HTTPConnection) -> Response | None:
        """An answer in place of the application's, if any."""
        origin = request.headers.get("origin")
        if (host := proxy_host(request.scope)) is not None:
            if origin is not None:  # a browser: Azure's clients send none
                raise ServiceError(403, "Forbidden", "web pages cannot use the proxy")
            return _find_missing_credential(request, host)
        if request.headers.get("host", "").lower() not in self._hosts:
            raise ServiceError(
                421, "MisdirectedRequest", "this server answers as 127.0.0.1 and localhost only"
            )
        if origin is not None and origin.lower() not in self._origins:
            raise ServiceError(403, "Forbidden", "requests from other origins are refused")
        path = request.scope["path"]
        if path.startswith(OPEN):
            return None
        answer = self._check_secret(request, path)
        admit(request.scope)
        return answer

    def _check_secret(self, request: HTTPConnection, path: str) -> Response | None:
        if self._has_bearer(request):
            return None
        if _API.match(path):
            self._check_storage(path, request.query_params)
            return None
        return self._admit_to_page(request)

    def _has_bearer(self, request: HTTPConnection) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and verify_token(self._workspace, token.strip())

    def _check_storage(self, path: str, query: QueryParams) -> None:
        parts = path.split("/", 4)
        if parts[1] == "blob" and len(parts) > 3 and verify_path(self._workspace, parts[3], query):
            return
        raise ServiceError(401, "AuthenticationFailed", "a token or a signature of this workspace is missing")

    def _admit_to_page(self, request: HTTPConnection) -> Response | None:
        secret, secure = secret_text(self._workspace, "page"), request.scope["scheme"] in {"https", "wss"}
        cookie = cookie_name(self._port, secure=secure)
        offered = request.query_params.get("token")
        if offered is not None and request.scope["type"] == "http":
            if not equal(offered, self._workspace.token):
                raise ServiceError(
                    401, "AuthenticationFailed", "the token in the address is not this server's"
                )
            left = [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
            target = "/" + request.scope["path"].lstrip("/") + (f"?{urlencode(left)}" if left else "")
            answer = RedirectResponse(target, 303)  # the token stays out of the history and of what is shared
            answer.set_cookie(cookie, secret, httponly=True, samesite="strict", secure=secure)
            return answer
        if equal(request.cookies.get(cookie, ""), secret):
            return None
        message = "open the address that `worldsize serve` printed: it has the token"
        raise ServiceError(401, "AuthenticationFailed", message)


def _find_missing_credential(request: HTTPConnection, host: str) -> Response | None:
    """Azure's 401 for a request without a credential: code that forgets it must not first fail there.

    Which credential it is does not matter here, because the connection has shown the proxy's secret.
    """
    prefix = path_prefix(host) or ""
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    if prefix == "" and not request.scope["path"].startswith(OPEN):
        if scheme.lower() == "bearer" and credential.strip():
            return None
        message = "Authentication failed. The 'Authorization' header is missing."
        return _challenge(ServiceError(401, "AuthenticationFailed", message))
    reads = request.scope.get("method") in {"GET", "HEAD"}
    is_public = reads and normalise(host).partition(".")[0] != ACCOUNT  # data that the project maps
    anonymous = not credential.strip() and "sig" not in request.query_params
    if prefix.startswith("/blob/") and anonymous and not is_public:
        message = "Server failed to authenticate the request: it has neither a token nor a signature."
        return _challenge(StorageError(401, "NoAuthenticationInformation", message))
    return None


def _challenge(error: ServiceError) -> Response:
    answer = error.response()
    answer.headers["www-authenticate"] = "Bearer"
    return answer


def _add_prefix(scope: Scope) -> Scope:
    """The scope with the path under which the application answers for the host of the proxy's request."""
    host = proxy_host(scope)
    prefix = path_prefix(host) if host is not None else None
    if not prefix:
        return scope
    raw = prefix.encode() + scope.get("raw_path", scope["path"].encode())
    return {**scope, "path": prefix + scope["path"], "raw_path": raw}


TOKEN_SECONDS = 86400  # as a managed identity's token lives
SAS_TIME = timedelta(days=7)
SAS_VERSION = "2023-11-03"
CLIENT = "00000000-0000-0000-0000-000000000002"
USER = "00000000-0000-0000-0000-000000000003"
USER_NAME = "user@worldsize.local"


@lru_cache(maxsize=256)
def _derive(token: str, purpose: str) -> bytes:
    """A secret for one purpose, so that one that leaks serves no other."""
    return hmac.digest(token.encode(), purpose.encode(), "sha256")


def secret_text(workspace: Workspace, purpose: str) -> str:
    """A derived secret as text that needs no quoting; the purpose is ``proxy``, ``identity`` or ``page``."""
    return _derive(workspace.token, purpose).hex()


def equal(left: str, right: str) -> bool:
    """Compare secrets in a time that does not tell where they differ."""
    return hmac.compare_digest(left.encode(), right.encode())


def issue_token(workspace: Workspace, audience: str, claims: Mapping[str, Any] | None = None) -> str:
    """A bearer token for ``audience``, with the claims that Azure's clients decode, or others."""
    now = int(time.time())
    payload = {
        "aud": audience,
        "iss": f"https://sts.windows.net/{TENANT}/",
        "iat": now,
        "nbf": now,
        "exp": now + TOKEN_SECONDS,
        "tid": TENANT,
        "oid": USER,
        "sub": USER,
        "upn": USER_NAME,
        "name": "Local user",
        "appid": CLIENT,
        "ver": "1.0",
        **(claims or {}),
    }
    signed = f"{_encode(json.dumps({'alg': 'HS256', 'typ': 'JWT'}))}.{_encode(json.dumps(payload))}"
    return f"{signed}.{_signature(workspace, signed)}"


def verify_token(workspace: Workspace, token: str) -> bool:
    """Whether the server signed the token and it has not expired."""
    signed, _, signature = token.rpartition(".")
    if not equal(signature, _signature(workspace, signed)):
        return False
    try:
        payload = json.loads(base64.urlsafe_b64decode(signed.partition(".")[2] + "=="))
        return float(payload["exp"]) > time.time()
    except (binascii.Error, ValueError, KeyError, TypeError):
        return False


def sign_path(workspace: Workspace, container: str) -> str:
    """The query string of a shared access signature for everything in a container.

    It is ``sv=…&sr=c&se=…&sp=…&sig=…``, without the question mark.
    """
    end = f"{datetime.now(timezone.utc) + SAS_TIME:%Y-%m-%dT%H:%M:%SZ}"
    values = {"sv": SAS_VERSION, "sr": "c", "se": end, "sp": "racwdl"}
    values["sig"] = _path_signature(workspace, container, end)
    return urlencode(values, quote_via=quote)


def verify_path(workspace: Workspace, container: str, query: Mapping[str, str]) -> bool:
    """Whether the query has a signature of the server for the container that has not expired."""
    end = query.get("se", "")
    if not equal(query.get("sig", ""), _path_signature(workspace, container, end)):
        return False
    return end > f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def _path_signature(workspace: Workspace, container: str, end: str) -> str:
    key = _derive(workspace.token, "storage")
    return base64.b64encode(hmac.digest(key, f"{container}\n{end}".encode(), "sha256")).decode()


def _signature(workspace: Workspace, signed: str) -> str:
    digest = hmac.digest(_derive(workspace.token, "bearer"), signed.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


# Azure's own host names. Sources, read 2026-11: the endpoints of azure-ai-ml's and azure-core's clouds;
# https://learn.microsoft.com/azure/security/fundamentals/azure-domains (domains of Azure services);
# https://learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure and
# https://learn.microsoft.com/azure/china/resources-developer-guide (the other clouds).
MANAGEMENT = frozenset(
    {
        "management.azure.com",
        "management.core.windows.net",
        "management.chinacloudapi.cn",
        "management.core.chinacloudapi.cn",
        "management.usgovcloudapi.net",
        "management.core.usgovcloudapi.net",
    }
)
# The domains below match themselves and every host below them.
LOGIN = (
    "login.microsoftonline.com",
    "login.microsoft.com",
    "login.windows.net",
    "sts.windows.net",
    "login.chinacloudapi.cn",
    "login.partner.microsoftonline.cn",
    "login.microsoftonline.us",
    "login.usgovcloudapi.net",
)
WORKSPACES = ("api.azureml.ms", "experiments.azureml.net", "api.ml.azure.cn", "api.ml.azure.us")
STORAGE = tuple(
    f"{service}.{suffix}"
    for service in ("blob", "dfs", "file")
    for suffix in ("core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net", "storage.azure.net")
)
TELEMETRY = (
    "services.visualstudio.com",
    "applicationinsights.azure.com",
    "applicationinsights.azure.cn",
    "applicationinsights.azure.us",
    "applicationinsights.microsoft.com",
    "livediagnostics.monitor.azure.com",
)
# Whatever else belongs to Azure and its customers in it: answered with an error, never reached.
OTHER = (
    "appserviceenvironment.net",
    "azconfig.io",
    "azmk8s.io",
    "azure-api.net",
    "azure-api.us",
    "azure-automation.net",
    "azure-devices.net",
    "azure-mobile.net",
    "azure.cn",
    "azure.com",
    "azure.net",
    "azure.us",
    "azurecontainer.io",
    "azurecontainerapps.io",
    "azurecr.cn",
    "azurecr.io",
    "azurecr.us",
    "azuredatabricks.net",
    "azureedge.net",
    "azurefd.net",
    "azurehdinsight.cn",
    "azurehdinsight.net",
    "azurehdinsight.us",
    "azureiotcentral.com",
    "azuremicroservices.io",
    "azureml.ms",
    "azureml.net",
    "azurestaticapps.net",
    "azuresynapse.net",
    "azurewebsites.net",
    "azurewebsites.us",
    "chinacloudapi.cn",
    "chinacloudapp.cn",
    "chinacloudsites.cn",
    "cloudapp.net",
    "dod-graph.microsoft.us",
    "fabric.microsoft.com",  # OneLake's storage
    "graph.microsoft.com",
    "graph.microsoft.us",
    "microsoftonline.cn",
    "microsoftonline.com",
    "microsoftonline.us",
    "servicebus.windows.net",
    "trafficmanager.cn",
    "trafficmanager.net",
    "usgovcloudapi.net",
    "usgovcloudapp.net",
    "usgovtrafficmanager.net",
    "windows.net",
    "windowsazure.com",
)
ALL = (*sorted(MANAGEMENT), *LOGIN, *WORKSPACES, *STORAGE, *TELEMETRY, *OTHER)


def normalise(host: str) -> str:
    """The host name in lower case, without the dot that ends a rooted name."""
    return host.lower().rstrip(".")


def path_prefix(host: str) -> str | None:
    """The prefix of the server's paths that answer for a host name without its port, in any case.

    It is empty where paths stay as they are, and ``None`` for a host that is not Azure's.
    """
    host = normalise(host)
    if host in MANAGEMENT or _is_below(host, WORKSPACES):
        return ""
    if _is_below(host, LOGIN):
        return "/login"
    if _is_below(host, STORAGE):
        return f"/blob/{host}"
    if _is_below(host, TELEMETRY):
        return "/telemetry"
    return f"/unknown/{host}" if _is_below(host, OTHER) else None


def _is_below(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)
