"""Imports run one way: from what knows nothing to what knows the user."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import architecture
import pytest

# A module may import from its own layer and from any earlier one.
ORDER = [
    {"base"},
    {"showing"},
    {"documents", "facts", "tracking"},
    {"spec", "azureml"},
    {"scripts", "data"},
    {"planning"},
    {"resolving"},
    {"rules"},
    {"checking"},
    {"api", "components"},
    {"running"},
    {"lab"},
    {"remote"},
    {"reporting"},
    {"retraining"},
    {"serving"},
    {"dsl"},
    {"adopting"},
    {"lsp"},
    {"cli", "__main__", "pytest_plugin"},
]
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
HEAVY = ["torch", "tensorflow", "mlflow", "azure", "pandas", "numpy", "pyarrow", "urllib.request"]


# The layers of `worldsize.running`, with the same rule. No module is part of a cycle of imports.
RUNNING = [
    "model",
    "launch",
    "environments",
    "prepare",
    "record",
    "reuse",
    "engine",
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
    "statement", ["import worldsize", "import worldsize; worldsize.check(['pipelines']).render()"]
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


def test_only_tracking_touches_the_tables_of_mlflow() -> None:
    """They change with MLflow: there is one reader to change with them."""
    tables = "alembic_version|experiments|latest_metrics|logged_models|metrics|model_versions?_?[a-z]*|params"
    tables += "|registered_model[a-z_]*|runs|tags"
    touches = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE) (?:{tables})\b|mlflow[./][a-z_./]*dbmodels")
    others = [module for module in architecture.modules() if module.package != "tracking"]
    assert [module.name for module in others if touches.search(module.text)] == []


def unbounded_reads() -> list[str]:
    """Reads of a file that do not pass through ``base.untrusted``: a pipe would block them.

    Left out are what the package has shipped (paths made from ``resources`` or ``__file__``), what the kernel
    answers below ``/proc`` and ``/sys``, and modules that run where the package is not: in a step's Python.
    """
    found = [
        (module, node)
        for module in architecture.modules()
        if module.name != "base.untrusted" and _MAY_READ.search(module.text)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and _reads_file(node) and not _is_shipped(node, module.tree)
    ]
    return [f"{module.name}:{node.lineno}" for module, node in found if not _runs_without_package(module)]


def _runs_without_package(module: architecture.Module) -> bool:
    """Whether a module, or its package, can be imported by a Python that does not have this one."""
    beside = [each for each in architecture.modules() if each.path.parent == module.path.parent]
    alone = not architecture.imports(module, for_types=False)
    return alone or (
        any(each.path.name == "__main__.py" for each in beside)
        and all(
            name.startswith(f"{module.name.rpartition('.')[0]}.") for name in architecture.imports(module)
        )
    )


_MAY_READ = re.compile(r"\b(?:open|read_text|read_bytes)\(")
_MODE = re.compile(r"[rwaxbt+]{1,3}")


def _reads_file(call: ast.Call) -> bool:
    """Whether a call opens or reads a file by its path, and does not write it."""
    function = call.func
    if getattr(function, "attr", getattr(function, "id", "")) not in ("open", "read_text", "read_bytes"):
        return False
    name = ast.unparse(function)
    if name == "os.open":
        return not re.search(r"O_(?:WRONLY|RDWR|CREAT|PATH)", ast.unparse(call))
    if isinstance(function, ast.Attribute) and function.attr in ("read_text", "read_bytes"):
        return not call.args or isinstance(call.args[0], ast.Constant)  # `fields.read_text(node, "type")`
    if not (name in ("open", "io.open") or (isinstance(function, ast.Attribute) and function.attr == "open")):
        return False
    place = 1 if name in ("open", "io.open") else 0
    given = [each.value for each in call.keywords if each.arg == "mode"] or call.args[place : place + 1]
    if not given:  # `session.open()` and `archive.open(member)` are no files; those of ours name an encoding
        return name in ("open", "io.open") or any(each.arg == "encoding" for each in call.keywords)
    mode = given[0].value if isinstance(given[0], ast.Constant) else None
    return isinstance(mode, str) and _MODE.fullmatch(mode) is not None and not set(mode) & set("wax+")


def _is_shipped(call: ast.Call, tree: ast.Module) -> bool:
    """Whether the path is made from what the package has shipped, or is one of the kernel."""
    made: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in architecture._targets(node):
                made.setdefault(target, []).append(ast.unparse(node.value))
    names = {each.id for each in ast.walk(call) if isinstance(each, ast.Name)}
    texts = [ast.unparse(call), *(text for name in names for text in made.get(name, ()))]
    return any(re.search(r"__file__|\bresources\.|['\"]/(?:proc|sys)/|os\.devnull", text) for text in texts)


def test_what_others_may_have_made_is_opened_by_one_function() -> None:
    assert not unbounded_reads(), "read it by `worldsize.base.untrusted`"


@pytest.mark.parametrize(
    ("call", "reads"),
    [
        ("open(path)", True),
        ("open(path, 'rb')", True),
        ("open(path, 'w')", False),
        ("path.open(encoding='utf-8')", True),
        ("path.open('a+b')", False),
        ("archive.open(member)", False),
        ("account.open()", False),
        ("path.read_text(encoding='utf-8')", True),
        ("path.read_text('utf-8')", True),
        ("fields.read_text(node, 'type')", False),
        ("os.open(path, os.O_RDONLY)", True),
        ("os.open(path, os.O_WRONLY | os.O_CREAT)", False),
    ],
)
def test_what_reads_a_file_is_told_by_its_call(call: str, reads: bool) -> None:
    (statement,) = ast.parse(call).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert _reads_file(statement.value) is reads
