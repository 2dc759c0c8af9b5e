"""What the server signs and checks: bearer tokens, signatures of storage URLs, secrets derived from one."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

from worldsize.serving.workspace import TENANT, Workspace

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
    """A derived secret as text that needs no quoting.

    Args:
        workspace: The workspace whose secret it is derived from.
        purpose: ``proxy``, ``identity`` or ``page``.
    """
    return _derive(workspace.token, purpose).hex()


def equal(left: str, right: str) -> bool:
    """Compare secrets in a time that does not tell where they differ."""
    return hmac.compare_digest(left.encode(), right.encode())


def issue_token(workspace: Workspace, audience: str, claims: Mapping[str, Any] | None = None) -> str:
    """A bearer token for ``audience``, with the claims that Azure's clients decode.

    Args:
        workspace: The workspace that signs it.
        audience: The resource that the client asked a token for.
        claims: Claims that differ, such as the application's id.
    """
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

    Args:
        workspace: The workspace that signs it.
        container: The name of the container.

    Returns:
        ``sv=…&sr=c&se=…&sp=…&sig=…``, without the question mark.
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
