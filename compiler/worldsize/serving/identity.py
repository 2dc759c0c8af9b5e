"""The managed identity, the login service, the endpoints of the cloud, and where telemetry ends.

Sources: https://learn.microsoft.com/azure/app-service/overview-managed-identity (App Service's REST form),
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow, and
https://openid.net/specs/openid-connect-discovery-1_0.html.
"""

from __future__ import annotations

import time
import zlib
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.control.call import read_body
from worldsize.serving.errors import answer
from worldsize.serving.front.guard import CLIENT, TOKEN_SECONDS, equal, issue_token, proxy_host, secret_text
from worldsize.serving.front.peers import admit
from worldsize.serving.workspace import TENANT, Workspace

MOST_FORM_BYTES = 65536
_DEFAULT_RESOURCE = "https://management.azure.com/"


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes of identity: ``/msi/token``, ``/login/…`` and ``/metadata/endpoints``."""
    token = partial(_answer_token, workspace)
    return [
        Route("/msi/token", partial(_answer_managed_token, workspace)),
        Route("/metadata/endpoints", _answer_cloud),
        Route("/login/common/discovery/instance", _answer_instance),
        Route("/login/{tenant}/.well-known/openid-configuration", _answer_configuration),
        Route("/login/{tenant}/v2.0/.well-known/openid-configuration", _answer_configuration),
        Route("/login/{tenant}/discovery/v2.0/keys", _answer_keys),
        Route("/login/{tenant}/discovery/keys", _answer_keys),
        Route("/login/{tenant}/oauth2/v2.0/token", token, methods=["POST"]),
        Route("/login/{tenant}/oauth2/token", token, methods=["POST"]),
        Route("/telemetry/{rest:path}", _accept_telemetry, methods=["GET", "POST", "PUT"]),
    ]


async def _answer_managed_token(workspace: Workspace, request: Request) -> Response:
    """A token by App Service's form, for who has the secret of ``IDENTITY_HEADER``."""
    secret = request.headers.get("x-identity-header", "")
    if not equal(secret, secret_text(workspace, "identity")):
        return _oauth_error(401, "invalid_client", "X-IDENTITY-HEADER does not have this workspace's secret")
    admit(request.scope)
    resource = request.query_params.get("resource", _DEFAULT_RESOURCE)
    return answer(
        {
            "access_token": issue_token(workspace, resource),
            "client_id": request.query_params.get("client_id", CLIENT),
            "expires_on": str(int(time.time()) + TOKEN_SECONDS),
            "not_before": str(int(time.time())),
            "resource": resource,
            "token_type": "Bearer",
        }
    )


async def _answer_token(workspace: Workspace, request: Request) -> Response:
    """A token of the login service.

    Whoever comes through the proxy has shown its secret, so any application and password will do there.
    A direct request has only the password to show.
    """
    text = (await read_body(request, MOST_FORM_BYTES)).decode("latin-1")
    form = {key: values[-1] for key, values in parse_qs(text).items()}
    secret = secret_text(workspace, "identity")
    if proxy_host(request.scope) is None and not equal(form.get("client_secret", ""), secret):
        return _oauth_error(401, "invalid_client", "client_secret is not this workspace's")
    admit(request.scope)
    if "grant_type" not in form:
        return _oauth_error(400, "invalid_request", "the form has no grant_type")
    scope = form.get("scope", "")
    resources = [word.removesuffix("/.default") for word in scope.split() if "://" in word]
    resource = form.get("resource") or next(iter(resources), _DEFAULT_RESOURCE)
    claims = {"appid": form.get("client_id", CLIENT), "tid": TENANT}
    document = {
        "access_token": issue_token(workspace, resource, claims),
        "token_type": "Bearer",
        "expires_in": TOKEN_SECONDS,
        "ext_expires_in": TOKEN_SECONDS,
    }
    if not request.url.path.endswith("/v2.0/token"):  # version 1.0 writes numbers as text
        now = int(time.time())
        document |= {
            "expires_in": str(TOKEN_SECONDS),
            "expires_on": str(now + TOKEN_SECONDS),
            "not_before": str(now),
            "resource": resource,
        }
    return answer(document)


async def _answer_cloud(request: Request) -> Response:
    """The endpoints of the cloud; those of this server for a direct request."""
    return answer([_describe_cloud(proxy_host(request.scope), request.headers.get("host", ""))])


async def _answer_instance(request: Request) -> Response:
    """Which hosts are the same login service: the one that was asked."""
    host, base = _login_base(request)
    return answer(
        {
            "tenant_discovery_endpoint": f"{base}/{TENANT}/v2.0/.well-known/openid-configuration",
            "api-version": "1.1",
            "metadata": [{"preferred_network": host, "preferred_cache": host, "aliases": [host]}],
        }
    )


async def _answer_configuration(request: Request) -> Response:
    """The login service's endpoints for a tenant."""
    tenant = request.path_params["tenant"]
    host, base = _login_base(request)
    return answer(
        {
            "issuer": f"{base}/{tenant}/v2.0",
            "authorization_endpoint": f"{base}/{tenant}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/{tenant}/oauth2/v2.0/token",
            "device_authorization_endpoint": f"{base}/{tenant}/oauth2/v2.0/devicecode",
            "jwks_uri": f"{base}/{tenant}/discovery/v2.0/keys",
            "response_types_supported": ["code", "id_token", "token"],
            "subject_types_supported": ["pairwise"],
            "id_token_signing_alg_values_supported": ["HS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
            "scopes_supported": ["openid", "profile", "offline_access"],
            "tenant_region_scope": None,
            "cloud_instance_name": host,
        }
    )


async def _answer_keys(_request: Request) -> Response:
    """No public keys: tokens are signed with a secret, and only this server checks them."""
    return answer({"keys": []})


def _login_base(request: Request) -> tuple[str, str]:
    """The host of the login service as the client named it, and the address that its paths follow."""
    proxied = proxy_host(request.scope)
    if proxied is not None:
        return proxied, f"https://{proxied}"
    host = request.headers.get("host", "")
    return host, f"{request.url.scheme}://{host}/login"


def _oauth_error(status: int, code: str, message: str) -> Response:
    return answer({"error": code, "error_description": message}, status)


LOCAL = "WorldsizeCloud"
# name, portal, management, login, storage; by the end of the management's host name
_CLOUDS = (
    (".chinacloudapi.cn", "AzureChinaCloud", "azure.cn", "chinacloudapi.cn", "login.chinacloudapi.cn"),
    (".usgovcloudapi.net", "AzureUSGovernment", "azure.us", "usgovcloudapi.net", "login.microsoftonline.us"),
    ("", "AzureCloud", "azure.com", "azure.com", "login.microsoftonline.com"),
)
_STORAGE = {"azure.com": "core.windows.net"}


def _describe_cloud(proxy_host: str | None, direct_host: str) -> dict[str, Any]:
    """The document of one cloud."""
    host = proxy_host or ""
    _, name, portal, base, login = next(cloud for cloud in _CLOUDS if host.endswith(cloud[0]))
    manager, login_url = f"https://management.{base}", f"https://{login}"
    if proxy_host is None:
        name = LOCAL  # azure-ai-ml has its own addresses for the names above
        manager, login_url = f"https://{direct_host}", f"https://{direct_host}/login"
    return {
        "name": name,
        "portal": f"https://portal.{portal}",
        "resourceManager": f"{manager}/",
        "authentication": {
            "loginEndpoint": f"{login_url}/",
            "audiences": [f"{manager}/", f"https://management.core.{base}/"],
            "tenant": "common",
            "identityProvider": "AAD",
        },
        "graphAudience": f"https://graph.{portal}/",
        "suffixes": {"storage": _STORAGE.get(base, f"core.{base}"), "keyVaultDns": f"vault.{portal}"},
    }


MOST_BYTES = 16 << 20


async def _accept_telemetry(request: Request) -> Response:
    """Accept the telemetry of Azure's clients, of which nothing is kept, as Application Insights does."""
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) <= MOST_BYTES:
            body += chunk
    count = _count_items(bytes(body), compressed=request.headers.get("content-encoding") == "gzip")
    return answer({"itemsReceived": count, "itemsAccepted": count, "errors": []})


def _count_items(body: bytes, *, compressed: bool) -> int:
    """How many envelopes a body has: a line each, or the elements of an array."""
    if compressed:
        try:
            body = zlib.decompressobj(wbits=31).decompress(body, MOST_BYTES)
        except zlib.error:
            return 0
    if body.lstrip().startswith(b"["):
        return max(1, body.count(b'"iKey"'))
    return sum(1 for line in body.split(b"\n") if line.strip())
