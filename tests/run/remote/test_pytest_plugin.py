"""The fixture `worldsize_workspace`, as another project's tests use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.run, pytest.mark.timeout(170)]

TESTS = """\
import os

def test_the_client_finds_the_workspace(worldsize_workspace):
    assert worldsize_workspace.url.startswith("http://127.0.0.1:")
    client = worldsize_workspace.ml_client()
    assert client.workspaces.get(client.workspace_name).name == client.workspace_name
    assert "gpu-cluster" in [compute.name for compute in client.compute.list()]

def test_the_variables_are_those_of_a_client(worldsize_workspace):
    assert os.environ["IDENTITY_ENDPOINT"] == worldsize_workspace.environment["IDENTITY_ENDPOINT"]

def test_without_the_fixture_nothing_is_set():
    assert "IDENTITY_ENDPOINT" not in os.environ
"""


def call_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=150, check=False)


def test_tests_of_a_project_use_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "test_pipeline.py").write_text(TESTS)
    done = call_pytest(tmp_path, "-p", "worldsize.pytest_plugin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert not (tmp_path / ".azureml").exists()


@pytest.mark.smoke
def test_the_plugin_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = "('click', 'azure', 'mlflow')"
    code = f"import sys, worldsize.pytest_plugin; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
