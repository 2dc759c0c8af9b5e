"""Where an MLflow that a step installs itself sends what it logs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from worldsize.running.environments.step_sitecustomize import redirect_records

SERVER = "http://127.0.0.1:1/mlflow/v2.0"


@pytest.mark.parametrize(
    ("tracked", "server", "installed", "expected"),
    [
        ("sqlite:////home/mlflow.db", SERVER, True, SERVER),
        ("sqlite:////home/mlflow.db", SERVER, False, "sqlite:////home/mlflow.db"),
        ("sqlite:////home/mlflow.db", "", True, "sqlite:////home/mlflow.db"),
        ("file:///step/mlruns", SERVER, True, "file:///step/mlruns"),
        ("", SERVER, True, ""),
    ],
)
def test_it_goes_to_the_workspace_server_where_there_is_one(
    tracked: str,
    server: str,
    installed: bool,
    expected: str,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packages = tmp_path / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / ("mlflow" if installed else "other")).mkdir(parents=True)
    for module in packages.iterdir():
        (module / "__init__.py").touch()
    variables = {
        "MLFLOW_TRACKING_URI": tracked,
        "MLFLOW_REGISTRY_URI": tracked,
        "MLFLOW_TRACKING_TOKEN": "",
        "WORLDSIZE_MLFLOW_SERVER": server,
        "WORLDSIZE_MLFLOW_TOKEN": "token",
        "WORLDSIZE_LAYER": str(tmp_path),
    }
    environment = dict(variables)
    monkeypatch.setattr("os.environ", environment)
    redirect_records()
    assert environment["MLFLOW_TRACKING_URI"] == environment["MLFLOW_REGISTRY_URI"] == expected
    assert environment["MLFLOW_TRACKING_TOKEN"] == ("token" if expected == SERVER else "")
