"""Imports run one way: from what knows nothing to what knows the user."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "compiler" / "worldsize"

# A module may import from its own layer and from any earlier one.
ORDER = [
    {"base"},
    {"yaml", "facts", "resources"},
    {"diagnostics", "secrecy"},
    {"errors", "spec", "azureml"},
    {"planning"},
    {"resolving"},
    {"rules"},
    {"checking"},
    {"fixing"},
    {"emit"},
    {"api", "components"},
    {"running"},
    {"cli", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
HEAVY = ["torch", "tensorflow", "mlflow", "azure", "pandas", "numpy", "pyarrow"]


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
            if node.module == "worldsize":
                names = [f"worldsize.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("worldsize.")}
    return found


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_import_points_back(path: Path) -> None:
    own = layer_of(path)
    if own == "__init__":
        return
    back = sorted(name for name in imported_layers(path) if LEVEL[name] > LEVEL[own])
    assert not back, f"{own} must not import {back}"


def test_every_layer_is_placed() -> None:
    on_disk = {layer_of(path) for path in PACKAGE.rglob("*.py")} - {"__init__", "_data"}
    assert on_disk <= set(LEVEL)


@pytest.mark.parametrize(
    "statement", ["import worldsize", "import worldsize; worldsize.check(['pipelines'])"]
)
def test_light_verbs_import_nothing_heavy(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(sorted(set({HEAVY!r}) & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PACKAGE.parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.strip() == "[]"
