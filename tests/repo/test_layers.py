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


# The layers of `worldsize.running`, with the same rule. No module is part of a cycle of imports.
RUNNING = [
    "model",
    "launch",
    "environments",
    "nodes",
    "prepare",
    "record",
    "reuse",
    "engine",
    "faults",
    "show",
    "api",
]


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


def test_no_import_points_back() -> None:
    back = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in PACKAGE.rglob("*.py")
        if layer_of(path) != "__init__"
        for name in imported_layers(path)
        if LEVEL[name] > LEVEL[layer_of(path)]
    ]
    assert not back


def imported_modules(path: Path) -> set[str]:
    """The modules of `worldsize.running` that one imports, wherever the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            for alias in node.names:
                inner = (PACKAGE.parent / f"{node.module}.{alias.name}".replace(".", "/")).with_suffix(".py")
                found.add(f"{node.module}.{alias.name}" if inner.exists() else node.module)
    return {name for name in found if name.startswith("worldsize.running.")}


def running_modules() -> dict[str, set[str]]:
    """Every module of `worldsize.running` by its dotted name, with what it imports of it."""
    paths = [path for path in (PACKAGE / "running").rglob("*.py") if "worldsize_parallel" not in path.parts]
    names = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }
    return {name: imported_modules(path) for name, path in names.items() if name != "worldsize.running"}


def test_running_is_in_layers() -> None:
    level = {f"worldsize.running.{name}": number for number, name in enumerate(RUNNING)}
    imports = running_modules()
    layer = {name: level[".".join(name.split(".")[:3])] for name in imports}
    back = [
        f"{name} imports {imported}"
        for name, modules in imports.items()
        for imported in modules
        if layer[imported] > layer[name]
    ]
    assert not back


def test_no_module_of_running_is_part_of_a_cycle() -> None:
    left = running_modules()
    while free := [name for name, modules in left.items() if not modules & left.keys() - {name}]:
        for name in free:
            del left[name]
    assert not left


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
