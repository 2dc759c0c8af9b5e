"""The variables of a client, the config.json that is lent to it, and the user's own proxy."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from worldsize.serving.front import environment
from worldsize.serving.front.environment import (
    apply_variables,
    client_variables,
    find_config,
    format_exports,
    lend_config,
    make_endpoints,
)
from worldsize.serving.front.guard import verify_token
from worldsize.serving.front.listener import UpstreamError, find_upstream
from worldsize.serving.workspace import Scope, Workspace


def test_the_proxy_catches_all_but_loopback(workspace: Workspace) -> None:
    own = {"HTTPS_PROXY": "http://company:3128", "NO_PROXY": ".azure.com", "AZURE_TOKEN_CREDENTIALS": "dev"}
    variables = client_variables(workspace, 8000, Path("/b.pem"), own, proxy=True)
    applied = apply_variables({**own, "PATH": "/bin"}, variables)
    assert applied["HTTPS_PROXY"].endswith("@127.0.0.1:8000")
    assert applied["HTTPS_PROXY"] == applied["https_proxy"]
    assert "azure" not in applied["NO_PROXY"]
    assert applied["PATH"] == "/bin"
    assert applied["IDENTITY_ENDPOINT"] == "http://127.0.0.1:8000/msi/token"
    assert {applied[name] for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")} == {"/b.pem"}
    assert "AZURE_TOKEN_CREDENTIALS" not in applied
    assert "ARM_CLOUD_METADATA_URL" not in applied


def test_without_the_proxy_the_users_own_stays(workspace: Workspace) -> None:
    own = {"HTTPS_PROXY": "http://company:3128", "no_proxy": "internal,localhost"}
    variables = client_variables(workspace, 8000, Path("/b.pem"), own, proxy=False)
    applied = apply_variables(own, variables)
    assert applied["HTTPS_PROXY"] == "http://company:3128"
    assert applied["no_proxy"] == applied["NO_PROXY"] == "internal,127.0.0.1,localhost"
    assert applied["ARM_CLOUD_METADATA_URL"].startswith("https://localhost:8000/metadata/endpoints")
    endpoints = make_endpoints("http://127.0.0.1:8000", 8000, proxy=False)
    assert f"https://{endpoints.account}.blob.core.windows.net" == endpoints.blob


@pytest.mark.parametrize("plugin", [True, False])
def test_mlflow_is_reached_with_and_without_its_plugin(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, plugin: bool
) -> None:
    monkeypatch.setattr(environment, "_has_mlflow_plugin", lambda: plugin)
    variables = client_variables(workspace, 8000, Path("/b.pem"), {}, proxy=True)
    address, token = variables["MLFLOW_TRACKING_URI"], variables.get("MLFLOW_TRACKING_TOKEN")
    assert address is not None
    if plugin:
        assert address.startswith("azureml://eastus.api.azureml.ms/mlflow/v2.0/subscriptions/")
        assert token is None
    else:
        assert address == "http://127.0.0.1:8000/mlflow/v2.0"
        assert token is not None
        assert verify_token(workspace, token)


def test_a_shell_reads_the_exports_as_they_are() -> None:
    values = {"WORLDSIZE_A": 'it\'s $HOME `x`\n"y"', "WORLDSIZE_B": None}
    script = "\n".join(format_exports(values)) + '\nprintf %s "$WORLDSIZE_A"; echo "|${WORLDSIZE_B-unset}"'
    environment = {**os.environ, "WORLDSIZE_B": "set"}
    shell = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert shell.stdout == f"{values['WORLDSIZE_A']}|unset\n"


def test_a_config_is_lent_only_where_none_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    with lend_config(inner, Scope()) as lent:
        assert lent == inner / ".azureml" / "config.json"
        assert find_config(inner) == lent
        assert (lent.parent / ".gitignore").read_text() == "*\n"
        assert find_config(inner / "c") == lent
        assert find_config(tmp_path) is None
    assert list(inner.iterdir()) == []
    (tmp_path / "config.json").write_text("{}")
    with lend_config(inner, Scope()) as lent:
        assert lent is None
        assert find_config(inner) == tmp_path / "config.json"
    assert (tmp_path / "config.json").read_text() == "{}"


def test_what_a_killed_server_left_is_taken_over(tmp_path: Path) -> None:
    with lend_config(tmp_path, Scope()) as lent:
        assert lent is not None
        text = lent.read_text()
    path = tmp_path / ".azureml" / "config.json"
    path.parent.mkdir()
    path.write_text(text)
    (path.parent / ".gitignore").write_text("*\n")
    with lend_config(tmp_path, Scope()) as lent:
        assert lent == path
    assert list(tmp_path.iterdir()) == []


def test_servers_in_one_folder_share_the_file_until_the_last_ends(tmp_path: Path) -> None:
    first, second = lend_config(tmp_path, Scope()), lend_config(tmp_path, Scope())
    assert first.__enter__() == second.__enter__() == tmp_path / ".azureml" / "config.json"
    second.__exit__(None, None, None)
    assert find_config(tmp_path) is not None
    first.__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []


def test_what_the_command_wrote_stays(tmp_path: Path) -> None:
    with lend_config(tmp_path, Scope()) as lent:
        assert lent is not None
        lent.write_text('{"mine": 1}')
        (lent.parent / "other").write_text("")
    assert lent.read_text() == '{"mine": 1}'


def test_the_users_proxy_is_used_for_other_hosts() -> None:
    upstream = find_upstream(
        {"https_proxy": "http://me:p%40ss@company:3128", "no_proxy": "internal, .example.org"}
    )
    assert upstream is not None
    assert (upstream.host, upstream.port) == ("company", 3128)
    assert upstream.authorization == "Basic bWU6cEBzcw=="
    assert upstream.serves("packages.example.net")
    assert not upstream.serves("a.internal")
    assert not upstream.serves("example.org")
    assert upstream.serves("notexample.org")
    everything = find_upstream({"HTTPS_PROXY": "company", "NO_PROXY": "*"})
    assert everything is not None
    assert everything.port == 80
    assert not everything.serves("example.org")


def test_a_proxy_of_a_workspace_is_not_the_users() -> None:
    assert find_upstream({}) is None
    assert find_upstream({"HTTPS_PROXY": "http://worldsize:secret@127.0.0.1:8000"}) is None


@pytest.mark.parametrize(
    "url", ["socks5://company:1080", "https://company", "http://company:port", "http://"]
)
def test_a_proxy_that_cannot_be_used_is_refused_in_words(url: str) -> None:
    with pytest.raises(UpstreamError, match="HTTPS_PROXY"):
        find_upstream({"HTTPS_PROXY": url})
