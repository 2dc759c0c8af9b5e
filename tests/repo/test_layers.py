"""Imports run one way: from what knows nothing to what knows the user."""

from __future__ import annotations

import subprocess
import sys

import architecture
import pytest

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
    {"remote"},
    {"serving"},
    {"dsl"},
    {"reporting"},
    {"adopting"},
    {"lsp"},
    {"cli", "__main__", "pytest_plugin"},
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


def test_no_import_points_back() -> None:
    assert not architecture.back_imports()


def running_modules() -> dict[str, set[str]]:
    """Every module of `worldsize.running` by its dotted name, with what it imports of it."""
    return {
        module.name: {name for name in architecture.imports(module) if name.startswith("running.")}
        for module in architecture.modules()
        if module.name.startswith("running.") and "worldsize_parallel" not in module.path.parts
    }


def test_running_is_in_layers() -> None:
    level = {name: number for number, name in enumerate(RUNNING)}
    imports = running_modules()
    layer = {name: level[name.split(".")[1]] for name in imports}
    back = [
        f"{name} imports {imported}"
        for name, modules in imports.items()
        for imported in modules
        if layer[imported] > layer[name]
    ]
    assert not back


def test_no_module_of_running_is_part_of_a_cycle() -> None:
    """Nor through what only types need, which the circles of `architecture.py` leave out."""
    left = running_modules()
    while free := [name for name, modules in left.items() if not modules & left.keys() - {name}]:
        for name in free:
            del left[name]
    assert not left


def test_every_layer_is_placed() -> None:
    assert {module.package for module in architecture.modules()} - {"__init__"} <= set(LEVEL)


@pytest.mark.parametrize(
    "statement", ["import worldsize", "import worldsize; worldsize.check(['pipelines'])"]
)
def test_light_verbs_import_nothing_heavy(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(sorted(set({HEAVY!r}) & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=architecture.PACKAGE.parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.strip() == "[]"
