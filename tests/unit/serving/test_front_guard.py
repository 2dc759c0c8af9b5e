"""What a direct request needs, and what a request through the proxy does not."""

from __future__ import annotations

import asyncio
import base64
import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from serving import make_workspace
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from worldsize.cli.main import main
from worldsize.serving.front import guard
from worldsize.serving.front.guard import OPEN, Guard, check_proxy_credentials, cookie_name
from worldsize.serving.front.server import PARTS
from worldsize.serving.workspace import Workspace

PORT = 12345
SOCKET = f"ws://127.0.0.1:{PORT}/_socket"
API = "/subscriptions/s/resourceGroups/g"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """An application that says which path it was asked."""
    if scope["type"] == "websocket":
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        await socket.close()
        return
    await PlainTextResponse(scope["path"] + "|" + scope.get("raw_path", b"").decode())(scope, receive, send)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path, PORT)


@pytest.fixture
def client(workspace: Workspace) -> TestClient:
    guard = Guard(echo, workspace, PORT)
    return TestClient(guard, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)


def bearer(workspace: Workspace) -> dict[str, str]:
    return {"Authorization": f"Bearer {guard.issue_token(workspace, 'https://management.azure.com')}"}


def test_the_management_api_needs_a_token_of_ours(client: TestClient, workspace: Workspace) -> None:
    assert client.get(API).status_code == 401
    assert client.get(API, headers={"Authorization": "Bearer x.y.z"}).status_code == 401
    assert client.get(API, headers={"Authorization": f"Basic {workspace.token}"}).status_code == 401
    assert client.get(API, headers=bearer(workspace)).status_code == 200


def test_a_token_that_was_changed_or_is_old_is_refused(workspace: Workspace) -> None:
    token = guard.issue_token(workspace, "a", {"exp": 1})
    assert not guard.verify_token(workspace, token)
    head, payload, signature = guard.issue_token(workspace, "a").split(".")
    other = base64.urlsafe_b64encode(b'{"exp": 9999999999, "aud": "b"}').rstrip(b"=").decode()
    assert not guard.verify_token(workspace, f"{head}.{other}.{signature}")
    assert not guard.verify_token(workspace, f"{head}.{payload}.")
    assert not guard.verify_token(workspace, "é")
    assert guard.verify_token(workspace, f"{head}.{payload}.{signature}")


@pytest.mark.parametrize("host", ["example.org", "example.org:12345", "127.0.0.1", "127.0.0.1:1", ""])
def test_a_host_that_is_not_this_server_is_refused(
    client: TestClient, workspace: Workspace, host: str
) -> None:
    assert client.get(API, headers={**bearer(workspace), "Host": host}).status_code == 421
    assert client.get(f"/?token={workspace.token}", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["https://example.org", "null", "http://127.0.0.1:1", "http://localhost"])
def test_another_origin_is_refused(client: TestClient, workspace: Workspace, origin: str) -> None:
    assert client.get(API, headers={**bearer(workspace), "Origin": origin}).status_code == 403
    assert client.get("/metadata/endpoints", headers={"Origin": origin}).status_code == 403
    assert (
        client.get("/", headers={"Origin": f"http://localhost:{PORT}", **bearer(workspace)}).status_code
        == 200
    )


def test_storage_takes_a_signature_for_its_container(client: TestClient, workspace: Workspace) -> None:
    query = guard.sign_path(workspace, "azureml")
    path = "/blob/a.blob.core.windows.net/azureml/folder/file"
    assert client.get(f"{path}?{query}").status_code == 200
    assert client.get(f"{path}?{query}&comp=metadata").status_code == 200
    assert client.get(path).status_code == 401
    assert client.get(f"/blob/a.blob.core.windows.net/other/file?{query}").status_code == 401
    later = query.replace("se=20", "se=30")
    assert later != query
    assert client.get(f"{path}?{later}").status_code == 401
    assert client.get(f"{API}?{query}").status_code == 401


def test_an_expired_signature_is_refused(workspace: Workspace) -> None:
    end = "2001-01-01T00:00:00Z"
    query = {"se": end, "sig": guard._path_signature(workspace, "azureml", end)}
    assert not guard.verify_path(workspace, "azureml", query)


def test_the_page_needs_its_token_once_and_its_cookie_after(client: TestClient, workspace: Workspace) -> None:
    assert client.get("/jobs").json()["error"]["code"] == "AuthenticationFailed"
    locked = client.get("/jobs?token=wrong", headers={"Accept": "text/html,*/*"})
    assert locked.status_code == 401
    assert "<code>worldsize serve</code> prints the address again" in locked.text
    answer = client.get(f"/jobs?a=1&token={workspace.token}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/jobs?a=1"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert workspace.token.lower() not in cookie
    assert client.get("/jobs").status_code == 200
    for path in (
        API,
        f"http://127.0.0.1:{PORT}//subscriptions/s",
        "/blob/h/c/b",
        "/history/v1.0/x",
        "/Subscriptions/s",
        "/unknown/h/x",
        "/mferp/managementfrontend/subscriptions/s",
        "/genericasset/v2.0/subscriptions/s",
        "/registrymanagement/v1.0/registries/r",
        "/modelregistry/v1.0/x",
    ):
        assert client.get(path).status_code in {401, 404}, path


def test_the_cookie_is_bound_to_its_host_where_the_connection_is_encrypted(
    client: TestClient, workspace: Workspace
) -> None:
    page = f"https://127.0.0.1:{PORT}/jobs"
    cookie = client.get(f"{page}?token={workspace.token}").headers["set-cookie"]
    assert cookie.startswith("__Host-worldsize_")
    assert "; Path=/;" in cookie
    assert "; Secure" in cookie
    assert client.get(page).status_code == 200


def test_the_token_in_an_address_leads_nowhere_else(client: TestClient, workspace: Workspace) -> None:
    for path in ("//example.org/", "/%5Cexample.org/", "///example.org"):
        location = client.get(f"http://127.0.0.1:{PORT}{path}?token={workspace.token}").headers["location"]
        assert location.startswith("/")
        assert location[1:2] not in {"/", "\\"}


def test_a_web_socket_needs_the_cookie_too(client: TestClient, workspace: Workspace) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(SOCKET):
        pass
    client.cookies.set(cookie_name(PORT), guard.secret_text(workspace, "page"))
    with client.websocket_connect(SOCKET):
        pass
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect(SOCKET, headers={"Origin": "https://example.org"}),
    ):
        pass


def request_by_proxy(
    workspace: Workspace, host: str, path: str, headers: Mapping[str, str]
) -> tuple[int, str]:
    """The status and the body of a request that came through the proxy."""
    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": path.partition("?")[0],
        "raw_path": path.partition("?")[0].encode(),
        "query_string": path.partition("?")[2].encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "state": {"proxy_host": host},
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Guard(echo, workspace, PORT)(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]).decode()


def test_a_request_through_the_proxy_gets_its_hosts_prefix(workspace: Workspace) -> None:
    ask, any_token = request_by_proxy, {"Authorization": "Bearer of-another-tenant"}
    assert ask(workspace, "management.azure.com", API, any_token) == (200, f"{API}|{API}")
    assert ask(workspace, "a.blob.core.windows.net", "/c/b", any_token) == (
        200,
        "/blob/a.blob.core.windows.net/c/b|/blob/a.blob.core.windows.net/c/b",
    )
    assert ask(workspace, "login.windows.net", "/t/oauth2/token", {})[1].startswith("/login/t/")
    assert ask(workspace, "management.azure.com", API, {"Origin": "https://example.org"})[0] == 403


@pytest.mark.parametrize(
    ("host", "path", "headers", "status"),
    [
        ("management.azure.com", API, {}, 401),
        ("management.core.windows.net", API, {"Authorization": "Bearer "}, 401),
        ("management.azure.com", API, {"Authorization": "Basic YTpi"}, 401),
        ("management.azure.com", "/metadata/endpoints", {}, 200),
        ("eastus.api.azureml.ms", "/history/v1.0/x", {}, 401),
        ("eastus.api.azureml.ms", "/discovery", {}, 200),
        ("worldsize.blob.core.windows.net", "/c/b", {}, 401),
        ("WORLDSIZE.dfs.core.windows.net.", "/c/b", {}, 401),
        ("worldsize.blob.core.windows.net", "/c/b", {"Authorization": "SharedKey a:c2ln"}, 200),
        ("worldsize.blob.core.windows.net", "/c/b?sig=x", {}, 200),
        ("public.blob.core.windows.net", "/c/b", {}, 200),
        ("login.windows.net", "/t/oauth2/token", {}, 200),
        ("dc.services.visualstudio.com", "/v2/track", {}, 200),
    ],
)
def test_a_forgotten_credential_is_answered_as_azure_does(
    workspace: Workspace, host: str, path: str, headers: Mapping[str, str], status: int
) -> None:
    assert request_by_proxy(workspace, host, path, headers)[0] == status


def test_the_proxy_takes_its_own_user_and_secret_only(workspace: Workspace) -> None:
    secret = guard.secret_text(workspace, "proxy")

    def header(text: str) -> str:
        return "Basic " + base64.b64encode(text.encode()).decode()

    assert check_proxy_credentials(workspace, header(f"worldsize:{secret}"))
    for wrong in (
        header(f"worldsize:{secret}x"),
        header(f"other:{secret}"),
        header(f"worldsize:{workspace.token}"),
        header("é"),
        "Basic %%%",
        f"Bearer {secret}",
        "",
    ):
        assert not check_proxy_credentials(workspace, wrong), wrong


def test_secrets_of_several_purposes_differ(workspace: Workspace) -> None:
    texts = {guard.secret_text(workspace, name) for name in ("proxy", "identity", "page")}
    assert len(texts | {workspace.token}) == 4


def test_the_cookie_opens_no_route_but_the_pages(client: TestClient, workspace: Workspace) -> None:
    client.cookies.set(cookie_name(PORT), guard.secret_text(workspace, "page"))
    parts = [part for part in PARTS if not part.endswith(".page.routes")]
    served = [route for part in parts for route in importlib.import_module(part).routes(workspace)]
    paths = [re.sub(r"\{[^}]*\}", "x", route.path) for route in served]
    assert len(paths) > 20
    opened = [path for path in paths if not path.startswith(OPEN) and client.get(path).status_code != 401]
    assert not opened


@pytest.mark.parametrize("damage", ["", "x", "A" * 42, "A" * 44, "A" * 42 + "\n", "mode", "link"])
def test_a_secret_that_is_not_what_was_written_opens_no_door(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    home, before = workspace.home, workspace.token
    path = home.state / "token.secret"
    if damage == "mode":
        path.chmod(0o644)
    elif damage == "link":
        path.rename(home.root / "elsewhere")
        path.symlink_to(home.root / "elsewhere")
    else:
        path.write_text(damage)
    monkeypatch.chdir(home.root.parent)
    for words in (["serve", "--print-env"], ["serve", "--", "true"]):
        done = CliRunner().invoke(main, words)
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        assert done.stderr.startswith("error: ")
        assert "token.secret`" in done.stderr
        assert "help: remove it" in done.stderr
        assert "Traceback" not in done.stderr
    assert workspace.token == before  # a server that runs goes on with what it has read
    path.unlink()
    assert CliRunner().invoke(main, ["serve", "--print-env"]).exit_code == 0
    assert len(path.read_text()) == 43
    assert path.read_text() != before
