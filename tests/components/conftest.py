from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

COMPONENTS = Path(__file__).parents[2] / "components"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def _render(command: str, values: dict[str, Any]) -> str:
    """Fill a component's command in as Azure ML does: optional sections vanish, literals are `str(value)`."""

    def section(match: re.Match[str]) -> str:
        names = re.findall(r"\$\{\{inputs\.(\w+)\}\}", match[1])
        return match[1] if all(name in values for name in names) else ""

    command = re.sub(r"\$\[\[(.*?)\]\]", section, command, flags=re.DOTALL)
    return re.sub(r"\$\{\{(?:inputs|outputs)\.(\w+)\}\}", lambda match: str(values[match[1]]), command)


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The merged code folder of a component: its code with the shared library beside it."""
    made: dict[str, Path] = {}

    def snapshot(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "code"
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(COMPONENTS / name / "src", made[name], ignore=ignore)
            shutil.copytree(COMPONENTS / "_shared" / "wstrain", made[name] / "wstrain", ignore=ignore)
        return made[name]

    return snapshot


@pytest.fixture
def component(snapshots: Callable[[str], Path], tmp_path: Path) -> Run:
    """Run a component's own command line in its snapshot: `component("evaluate", model=…, metrics=…)`."""

    def run(name: str, *, env: dict[str, str] | None = None, timeout: float = 110, **values: Any) -> Any:
        described = yaml.safe_load((COMPONENTS / name / "component.yml").read_text(encoding="utf-8"))
        defaults = {key: port["default"] for key, port in described["inputs"].items() if "default" in port}
        command = _render(described["command"], defaults | values)
        paths = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        tracking = {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}
        environment = {**os.environ, **paths, **tracking, **(env or {})}
        environment.pop("PYTHONPATH", None)
        return subprocess.run(
            ["bash", "-c", command],
            cwd=snapshots(name),
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
