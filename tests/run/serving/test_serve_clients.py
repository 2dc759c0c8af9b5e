"""One server, and real clients that reach it by environment variables only."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Served, make_workspace, serving

from worldsize.serving.front.certificates import Authority

pytest.importorskip("azure.identity", reason="pip install 'worldsize[serve,azure]'")
pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(120)]

SCOPE = "https://management.azure.com/.default"
CLAIMS = ["aud", "exp", "iat", "iss", "name", "nbf", "oid", "tid", "upn"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as each:
        yield each


def claims(token: str) -> dict[str, object]:
    payload = token.split(".")[1]
    document: dict[str, object] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return document


def test_credentials_get_tokens(served: Served) -> None:
    code = f"""
import os
from azure.identity import DefaultAzureCredential, EnvironmentCredential, ManagedIdentityCredential
print(DefaultAzureCredential().get_token("{SCOPE}").token)
print(ManagedIdentityCredential(client_id="11111111-1111-1111-1111-111111111111").get_token("{SCOPE}").token)
for tenant in ("22222222-2222-2222-2222-222222222222", "contoso.onmicrosoft.com"):
    os.environ |= {{"AZURE_CLIENT_ID": "me", "AZURE_CLIENT_SECRET": "any", "AZURE_TENANT_ID": tenant}}
    print(EnvironmentCredential().get_token("{SCOPE}").token)
os.environ["AZURE_AUTHORITY_HOST"] = "login.chinacloudapi.cn"
print(EnvironmentCredential().get_token("https://management.chinacloudapi.cn/.default").token)
"""
    tokens = served.python(code).split()
    assert len(tokens) == 5
    for token in tokens:
        assert set(CLAIMS) <= set(claims(token))
    assert {str(claims(token)["aud"]).rstrip("/") for token in tokens} == {
        "https://management.azure.com",
        "https://management.chinacloudapi.cn",
    }


def test_the_client_reads_the_workspace_by_the_names_that_it_gives(served: Served) -> None:
    code = """
from azure.ai.ml import MLClient
from azure.identity import DefaultAzureCredential
client = MLClient(DefaultAzureCredential(), "<SUBSCRIPTION_ID>", "<RESOURCE_GROUP>", "<AML_WORKSPACE_NAME>")
print(client.workspaces.get("<AML_WORKSPACE_NAME>").name)
"""
    assert served.python(code).split() == ["<AML_WORKSPACE_NAME>"]


def test_without_the_proxy_the_client_reaches_workspace_and_storage(tmp_path: Path) -> None:
    code = """
import os
from pathlib import Path
from azure.ai.ml import MLClient
from azure.ai.ml.entities import Data
from azure.identity import DefaultAzureCredential
assert "HTTPS_PROXY" not in os.environ
client = MLClient.from_config(DefaultAzureCredential(), path=os.environ["CONFIG"])
Path("rows.csv").write_text("a,b")
data = client.data.create_or_update(Data(name="rows", version="1", path="rows.csv", type="uri_file"))
print(data.path)
"""
    with serving(tmp_path, "--no-proxy") as served:
        config = tmp_path / "config.json"
        names = ("subscription_id", "resource_group", "workspace_name")
        config.write_text(json.dumps(dict.fromkeys(names, "mine")))
        served.environment["CONFIG"] = str(config)
        for name in ("HTTPS_PROXY", "https_proxy"):
            served.environment.pop(name, None)
        assert served.python(code).startswith("azureml://subscriptions/mine/")
        stored = list((served.home / "serve" / "blobs").rglob("rows.csv"))
        assert [path.read_text() for path in stored] == ["a,b"]


def ask(served: Served, *words: str) -> tuple[int, str]:
    """The status and the body of a request by curl, as a client of the workspace."""
    result = served.run("curl", "-sS", "-o", "-", "-w", "\n%{http_code} %{http_connect}", *words)
    body, _, status = result.stdout.rpartition("\n")
    return int(status.split()[0] or 0) or int(status.split()[1]), body + result.stderr


def test_azures_hosts_end_here_and_telemetry_is_swallowed(served: Served) -> None:
    status, text = ask(served, "https://myvault.vault.azure.net/secrets/x")
    assert status == 404
    assert "myvault.vault.azure.net" in json.loads(text)["error"]["message"]
    items = '{"iKey": "1", "name": "a"}\n{"iKey": "1", "name": "b"}'
    status, text = ask(served, "-d", items, "https://dc.services.visualstudio.com/v2.1/track")
    assert (status, json.loads(text)) == (200, {"itemsReceived": 2, "itemsAccepted": 2, "errors": []})
    chunked = (
        "-H",
        "Transfer-Encoding: chunked",
        "-d",
        items,
        "https://dc.services.visualstudio.com/v2/track",
    )
    assert ask(served, *chunked)[0] == 200


def test_the_clouds_endpoints_are_azures_through_the_proxy_and_ours_without(served: Served) -> None:
    asked = ask(served, "https://management.usgovcloudapi.net/metadata/endpoints?api-version=2019-05-01")[1]
    assert json.loads(asked)[0]["suffixes"]["storage"] == "core.usgovcloudapi.net"
    direct = f"https://localhost:{served.port}/metadata/endpoints?api-version=2019-05-01"
    assert json.loads(ask(served, direct)[1])[0]["resourceManager"] == f"https://localhost:{served.port}/"


def test_without_the_secrets_nothing_is_answered(served: Served) -> None:
    base = served.address
    assert ask(served, f"{base}/msi/token?resource=x")[0] == 401
    assert ask(served, "-H", "X-IDENTITY-HEADER: x", f"{base}/msi/token?resource=x")[0] == 401
    assert (
        ask(served, "-d", "grant_type=client_credentials&client_secret=x", f"{base}/login/t/oauth2/token")[0]
        == 401
    )
    assert ask(served, f"{base}/subscriptions/s/resourceGroups/g")[0] == 401
    assert ask(served, f"{base}/")[0] == 401
    assert ask(served, "-H", "Origin: https://example.org", f"{base}/metadata/endpoints")[0] == 403
    assert ask(served, "-H", "Host: example.org", f"{base}/metadata/endpoints")[0] == 421
    for proxy in (f"127.0.0.1:{served.port}", f"worldsize:x@127.0.0.1:{served.port}"):
        assert ask(served, "-x", f"http://{proxy}", "https://management.azure.com/subscriptions")[0] == 407
        assert ask(served, "-x", f"http://{proxy}", "https://example.org/")[0] == 407


def test_its_token_opens_the_page_once(served: Served) -> None:
    status, text = ask(served, "-i", f"{served.address}/?token={served.token}")
    assert status == 303
    assert "samesite=strict" in text.lower()
    assert f"worldsize_{served.port}=" in text


def test_it_listens_on_loopback_only_and_its_files_are_private(served: Served) -> None:
    listed = subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=True).stdout
    pids = {served.process.pid} | {child.pid for child in children(served.process.pid)}
    ours = [line.split()[3] for line in listed.splitlines() if any(f"pid={pid}," in line for pid in pids)]
    assert f"127.0.0.1:{served.port}" in ours
    assert all(address.startswith(("127.0.0.1:", "[::1]:")) for address in ours), ours
    for path in [served.home, *served.home.rglob("*")]:
        assert path.lstat().st_mode & 0o077 == 0 or path.is_symlink(), path


def children(pid: int) -> list[object]:
    psutil = pytest.importorskip("psutil")
    found: list[object] = psutil.Process(pid).children(recursive=True)
    return found


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A TLS server of another certificate authority that sends back what it gets: its port and its bundle."""
    authority = Authority(make_workspace(tmp_path / "other").home)
    bundle = authority.write_bundle({})
    context = authority.context("localhost", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=echo_once, args=(listening, context))
        thread.start()
        yield listening.getsockname()[1], bundle
        thread.join(timeout=20)


def echo_once(listening: socket.socket, context: ssl.SSLContext) -> None:
    connection, _ = listening.accept()
    with context.wrap_socket(connection, server_side=True) as server:
        while data := server.recv(65536):
            server.sendall(data)


def test_another_host_is_reached_with_its_own_certificate(served: Served, echo: tuple[int, Path]) -> None:
    port, bundle = echo
    user = served.environment["HTTPS_PROXY"].removeprefix("http://").partition("@")[0]
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        secret = base64.b64encode(user.encode()).decode()
        head = f"CONNECT localhost:{port} HTTP/1.1\r\nProxy-Authorization: Basic {secret}\r\n\r\n"
        for part in (head[:5], head[5:40], head[40:-1], head[-1:]):
            connection.sendall(part.encode())
            time.sleep(0.02)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        context = ssl.create_default_context(cafile=str(bundle))
        with context.wrap_socket(connection, server_hostname="localhost") as client:
            data = bytes(range(256)) * 4096
            threading.Thread(target=client.sendall, args=(data,)).start()
            got = b""
            while len(got) < len(data):
                got += client.recv(65536)
            assert got == data


@pytest.mark.parametrize(
    "sent",
    [
        b"CONNECT \r\n\r\n",
        b"CONNECT management.azure.com:443\r\n\r\n",
        b"CONNECT " + b"a" * 20000 + b":443 HTTP/1.1\r\n\r\n",
        b"CONNECT m\xfcnagement.azure.com:443 HTTP/1.1\r\n\r\n",
        b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01" + b"\0" * 100,
        b"\0" * 100,
        b"",
    ],
)
def test_nonsense_is_refused_and_the_server_goes_on(served: Served, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        answer = b""
        with contextlib.suppress(OSError):  # the server may be done with it
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(65536):
                answer += data
    assert b" 200 " not in answer[:20]
    assert ask(served, f"{served.address}/metadata/endpoints")[0] == 200
    assert "Traceback" not in (served.home / "serve" / "server.log").read_text()


def test_a_second_server_of_the_home_is_refused(served: Served) -> None:
    words = [sys.executable, "-m", "worldsize", "serve", "--home", str(served.home), "--", "true"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 1
    assert f"process {served.process.pid}, {served.address}" in result.stderr
    assert "Traceback" not in result.stderr
