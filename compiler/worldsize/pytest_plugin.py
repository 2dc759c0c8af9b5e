"""The pytest fixture `worldsize_workspace`: tests submit to a workspace on this machine with Azure's clients.

Pytest imports this module in every project where Worldsize is installed, so it imports nothing but pytest and
the standard library; a server starts only for tests that ask for the fixture.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from azure.ai.ml import MLClient

STOP_SECONDS = 30.0
# Runs inside the workspace: says its variables, and ends with its standard input.
_INSIDE = "import json, os, sys; print(json.dumps(dict(os.environ)), flush=True); sys.stdin.read()"
_NEEDED = {"nicegui": "serve", "uvicorn": "serve", "mlflow": "serve", "azure.ai.ml": "azure"}


@dataclass(frozen=True, slots=True)
class LocalWorkspace:
    """A workspace that `worldsize serve` keeps open during the tests."""

    home: Path
    changes: Mapping[str, str | None]  # variables that its clients have; None for one that is not set

    @property
    def environment(self) -> dict[str, str]:
        """The environment for a process that uses the workspace."""
        merged = {name: value for name, value in os.environ.items() if name not in self.changes}
        return merged | {name: value for name, value in self.changes.items() if value is not None}

    @property
    def url(self) -> str:
        """The address of the server, such as ``http://127.0.0.1:8321``."""
        parts = urlsplit(self.environment["IDENTITY_ENDPOINT"])
        return f"{parts.scheme}://{parts.netloc}"

    def ml_client(self, **options: Any) -> MLClient:
        """azure-ai-ml's client of the workspace, with the credentials of :mod:`azure.identity`."""
        from azure.ai.ml import MLClient
        from azure.identity import DefaultAzureCredential

        names = (self.environment[f"AZUREML_ARM_{name}"] for name in _NAMES)
        return MLClient(DefaultAzureCredential(), *names, **options)


_NAMES = ("SUBSCRIPTION", "RESOURCEGROUP", "WORKSPACE_NAME")


@pytest.fixture(scope="session")
def _worldsize_server(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalWorkspace]:
    """One server for all tests of a session (with pytest-xdist, for each worker)."""
    missing = sorted({extra for module, extra in _NEEDED.items() if not _is_installed(module)})
    if missing:
        pytest.fail(
            f"`worldsize_workspace` needs `pip install 'worldsize[{','.join(missing)}]'`", pytrace=False
        )
    home = tmp_path_factory.mktemp("worldsize") / "home"
    words = [sys.executable, "-m", "worldsize", "serve", "--home", str(home), "--environment", "current"]
    errors = home.with_name("server.txt")
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [*words, "--", sys.executable, "-c", _INSIDE],
            cwd=pytestconfig.rootpath,  # whose worldsize.yml describes the clusters
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        variables = _read_variables(server.stdout)
        if variables is None:
            server.kill()
            pytest.fail(f"`worldsize serve` has not started:\n{errors.read_text()}", pytrace=False)
        yield LocalWorkspace(home, _find_changes(variables))
        server.stdin.close()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()


@pytest.fixture
def worldsize_workspace(_worldsize_server: LocalWorkspace, monkeypatch: pytest.MonkeyPatch) -> LocalWorkspace:
    """A workspace of Azure Machine Learning on this machine, which lasts for the session.

    While the test runs, the environment leads Azure's clients to it: ``DefaultAzureCredential``, ``MLClient``
    and MLflow need no change.
    """
    for name, value in _worldsize_server.changes.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    return _worldsize_server


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it lies in
        return False


def _read_variables(stdout: IO[str]) -> dict[str, str] | None:
    """What the command inside printed; None if the server ended before."""
    for line in stdout:
        if line.startswith('{"'):
            variables: dict[str, str] = json.loads(line)
            return variables
    return None


def _find_changes(variables: Mapping[str, str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {
        name: value for name, value in variables.items() if os.environ.get(name) != value
    }
    return changed | {name: None for name in os.environ if name not in variables}
