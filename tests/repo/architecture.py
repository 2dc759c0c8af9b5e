"""Measures the compiler's architecture and the size of its tests, and draws its packages.

    python tests/repo/architecture.py             the measures, as a table
    python tests/repo/architecture.py --picture   the packages and what they import, as a Mermaid diagram
    python tests/repo/architecture.py --write     the same, into CONTRIBUTING.md

``test_architecture.py`` holds bounds for what is measured here.
"""

from __future__ import annotations

import argparse
import ast
import re
import runpy
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import checkout

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "compiler" / "worldsize"
PAGE = ROOT / "CONTRIBUTING.md"
SMALL = 50  # lines, below which a module may be one idea with its neighbour
START, END = "<!-- packages: written by `make picture` -->", "<!-- end of packages -->"
NOT_DRAWN = {"__init__", "__main__"}
SCRIPTS = "scripts"  # the package that reads Python files of users
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Graph = dict[str, set[str]]


@dataclass(frozen=True, eq=False)
class Module:
    """A Python file of the compiler, read once."""

    path: Path
    name: str  # dotted, without the leading "worldsize."
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the compiler, sorted by path."""
    return tuple(_read(path) for path in sorted(PACKAGE.rglob("*.py")) if "_data" not in path.parts)


def _read(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    name = ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)
    return Module(path, name, text, ast.parse(text))


@cache
def statements(tree: ast.AST, *, for_types: bool = True) -> tuple[ast.AST, ...]:
    """Every statement below, however deep; without ``for_types`` only those that can run.

    Expressions hold none: passing over them saves most of a walk.
    """
    found: list[ast.AST] = [tree]
    for node in found:  # it grows
        runs = for_types or not _is_for_types(node)
        for block in ("body", "orelse", "finalbody", "handlers", "cases")[not runs :]:
            found += getattr(node, block, ())
    return tuple(found[1:])


def _is_for_types(node: ast.AST) -> bool:
    """Whether the body of a statement is for type checkers only."""
    if not isinstance(node, ast.If):
        return False
    name = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", None)
    return name == "TYPE_CHECKING"


@cache
def imports(module: Module, *, for_types: bool = True) -> frozenset[str]:
    """The dotted names below ``worldsize`` that a module imports, wherever in it."""
    names: set[str] = set()
    for node in statements(module.tree, for_types=for_types):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = _source(module, node)
            inner = {f"{source}.{alias.name}" for alias in node.names}
            names |= {name if name in _known() else source for name in inner}
    return frozenset(name.removeprefix("worldsize.") for name in names if name.startswith("worldsize."))


def _source(module: Module, node: ast.ImportFrom) -> str:
    """What an import imports from, by its whole name."""
    if not node.level:
        return node.module or ""
    folders = module.path.parents[node.level - 1].relative_to(PACKAGE.parent).parts
    return ".".join((*folders, node.module) if node.module else folders)


@cache
def _known() -> frozenset[str]:
    return frozenset(f"worldsize.{module.name}" for module in modules())


def package_graph() -> Graph:
    """Which package imports which: the folders and modules directly below ``worldsize``."""
    graph: Graph = {module.package: set() for module in modules()}
    for module in modules():
        graph[module.package] |= {name.partition(".")[0] for name in imports(module)} & graph.keys()
    return {name: others - {name} for name, others in graph.items()}


def running_graph() -> Graph:
    """The same between the parts of ``running/``."""
    parts = {module.name: _part(module.name) for module in modules() if module.package == "running"}
    graph: Graph = {part: set() for part in parts.values()}
    for module in modules():
        if module.package == "running":
            targets = {_part(name) for name in imports(module) if name.startswith("running.")}
            graph[_part(module.name)] |= targets & graph.keys()
    return {part: others - {part} for part, others in graph.items()}


def module_graph() -> Graph:
    """Which module imports which as it runs, also inside a function."""
    graph = {module.name: set(imports(module, for_types=False)) for module in modules()}
    return {name: others & graph.keys() - {name} for name, others in graph.items()}


def _part(name: str) -> str:
    return name.split(".")[1] if "." in name else "__init__"


def knots(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one node (every node reaches every other)."""
    while ends := {node for node, others in graph.items() if not others}:  # which lead nowhere
        graph = {node: others - ends for node, others in graph.items() if others}
    reach = {node: _reachable(graph, node) for node in graph}
    found = {
        tuple(sorted({node} | {other for other in reach[node] if node in reach[other]})) for node in graph
    }
    return sorted(list(knot) for knot in found if len(knot) > 1)


def _reachable(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += graph[node]
    return seen


def back_imports() -> list[str]:
    """Imports of a later layer, by the order that ``test_layers.py`` holds."""
    level = runpy.run_path(str(Path(__file__).with_name("test_layers.py")))["LEVEL"]
    return sorted(
        {
            f"{module.name} imports {name}"
            for module in modules()
            if module.package in level
            for name in imports(module)
            if level.get(name.partition(".")[0], -1) > level[module.package]
        }
    )


def imports_inside_functions(tree: ast.Module) -> list[int]:
    """The lines of the import statements that a function runs."""
    inside = {
        node
        for function in statements(tree)
        if isinstance(function, FUNCTIONS)
        for node in statements(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    return sorted(node.lineno for node in inside)


def private_imports() -> list[str]:
    """Imports of a private module by a module that is not of its package."""
    return [
        f"{module.name} imports {name}"
        for module in modules()
        for name in sorted(imports(module))
        if not is_visible(name, module.name)
    ]


def is_visible(name: str, user: str) -> bool:
    """Whether a module may use another: a name with `_` at its start is for the package that it is in."""
    parts = name.split(".")
    private = (number for number, part in enumerate(parts) if part.startswith("_") and part[:2] != "__")
    return all(f"{user}.".startswith(".".join([*parts[:number], ""])) for number in private)


def parses_of_python() -> list[str]:
    """The calls of ``ast.parse`` outside the package that reads users' Python."""
    return [
        f"{module.name}:{node.lineno}"
        for module in modules()
        if "ast.parse" in module.text and not f"{module.name}.".startswith(f"{SCRIPTS}.")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ast.parse"
    ]


def golden_lines() -> int:
    """The lines of the committed expectations in ``tests/golden``."""
    texts = (path.read_bytes() for path in checkout.list_files("tests/golden") if path.suffix != ".py")
    return sum(text.count(b"\n") for text in texts if b"\0" not in text)


def rule_modules() -> list[Module]:
    """The modules that declare a rule."""
    return [
        module
        for module in modules()
        if module.name.startswith("rules.")
        and any(isinstance(node, ast.Assign) and _targets(node) == {"RULE"} for node in module.tree.body)
    ]


def _targets(node: ast.Assign) -> set[str]:
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


def rules_without_logic() -> list[str]:
    """Rules whose Python file only declares them."""
    return [
        module.name
        for module in rule_modules()
        if not any(isinstance(node, FUNCTIONS) for node in statements(module.tree))
    ]


def rule_codes() -> set[str]:
    """The codes of all rules, as the rules package writes them."""
    texts = [module.text for module in modules() if module.package == "rules"]
    return {code for text in texts for code in re.findall(r"(?:Entry|Rule|Row)\(\s*\"(WS\d{3})\"", text)}


def pages() -> list[str]:
    """The copies of rules' pages: Markdown files, and docstrings of rules that have a page's parts."""
    written = [path.name for path in (ROOT / "compiler").rglob("WS[0-9]*.md")]
    docstrings = [
        module.name
        for module in modules()
        if module.package == "rules"
        and re.search(r"^Fix:", ast.get_docstring(module.tree) or "", re.MULTILINE)
    ]
    return written + docstrings


def functions_called_of() -> list[str]:
    """Functions whose name says neither what they do nor to what."""
    return [
        f"{module.name}:{node.lineno}"
        for module in modules()
        for node in statements(module.tree)
        if isinstance(node, ast.FunctionDef) and node.name == "of"
    ]


def noqa_codes() -> Counter[str]:
    """How often each check of ruff is silenced in what we ship, by its code."""
    counts: Counter[str] = Counter()
    for folder in ("compiler", "components"):
        for path in (ROOT / folder).rglob("*.py"):
            for codes in re.findall(r"# noqa: ([A-Z0-9, ]+)", path.read_text(encoding="utf-8")):
                counts.update(re.findall(r"[A-Z]+\d+", codes))
    return counts


def yaml_libraries() -> dict[str, list[str]]:
    """The libraries for YAML that the compiler imports, each with the modules that do."""
    users: dict[str, list[str]] = {}
    for module in modules():
        for node in statements(module.tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                library = name.partition(".")[0]
                if library in ("yaml", "ruamel") and module.name not in users.setdefault(library, []):
                    users[library].append(module.name)
    return users


@cache
def measure() -> dict[str, int]:
    """Every measure that has a bound, by name; less is better."""
    packages, running = package_graph(), running_graph()
    return {
        "files": len(modules()),
        "lines": sum(module.lines for module in modules()),
        "small modules": sum(
            module.lines < SMALL for module in modules() if module.path.name != "__init__.py"
        ),
        "edges between packages": sum(map(len, packages.values())),
        "packages in knots": sum(map(len, knots(packages))),
        "edges in running": sum(map(len, running.values())),
        "parts of running in knots": sum(map(len, knots(running))),
        "circles of modules": len(knots(module_graph())),
        "imports inside functions": sum(len(imports_inside_functions(each.tree)) for each in modules()),
        "private modules of others": len(private_imports()),
        "ast.parse outside scripts": len(parses_of_python()),
        "back imports": len(back_imports()),
        "rules without logic": len(rules_without_logic()),
        "pages above one a rule": max(0, len(pages()) - len(rule_codes())),
        "functions called of": len(functions_called_of()),
        "noqa": sum(noqa_codes().values()),
        "libraries for YAML": len(yaml_libraries()),
        "test files": len(checkout.list_files("tests")),
        "lines of golden files": golden_lines(),
    }


def table() -> str:
    """The measures, then each package's files and lines, then what stands behind the measures."""
    lines = [f"{name:28} {value:7,}" for name, value in measure().items()]
    lines += ["", f"{'package':28} {'files':>7} {'lines':>7}"]
    for package in sorted(package_graph()):
        own = [module for module in modules() if module.package == package]
        lines.append(f"{package:28} {len(own):7,} {sum(module.lines for module in own):7,}")
    lines += ["", *(f"knot of packages: {', '.join(knot)}" for knot in knots(package_graph()))]
    lines += [f"knot in running: {', '.join(knot)}" for knot in knots(running_graph())]
    lines += [f"circle of modules: {', '.join(knot)}" for knot in knots(module_graph())]
    lines += [f"private module: {each}" for each in private_imports()]
    lines += [f"ast.parse: {each}" for each in parses_of_python()]
    lines += [f"back import: {each}" for each in back_imports()]
    lines += [f"called of: {each}" for each in functions_called_of()]
    lines += [f"noqa {code}: {count}" for code, count in noqa_codes().most_common()]
    lines += [f"library for YAML: {library} in {len(users)}" for library, users in yaml_libraries().items()]
    return "\n".join(lines)


def picture() -> str:
    """The packages as a Mermaid diagram, with an arrow from each to those that it imports.

    An arrow that follows from others is left out (transitive reduction); packages that import each
    other in a circle share a box.
    """
    graph = _without_circles(
        {name: others for name, others in package_graph().items() if name not in NOT_DRAWN}
    )
    lines = ["```mermaid", "flowchart TD"]
    for name in sorted(graph):
        others = graph[name]
        implied = {far for near in others for far in _reachable(graph, near)}
        lines += [f"  {name} --> {other}" for other in sorted(others - implied)]
        if not others and not any(name in targets for targets in graph.values()):
            lines.append(f"  {name}")
    return "\n".join([*lines, "```"])


def _without_circles(graph: Graph) -> Graph:
    joined = {name: "_".join(knot) for knot in knots(graph) for name in knot}
    result: Graph = {}
    for name, others in graph.items():
        own = joined.get(name, name)
        result.setdefault(own, set()).update(joined.get(other, other) for other in others if other in graph)
    return {name: others - {name} for name, others in result.items()}


def page_with_picture(text: str) -> str:
    """The page with the picture of today between its two marks."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{picture()}\n{END}{after}"


def main() -> None:
    """Print the table or the picture, or write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", action="store_true", help="print the packages as a diagram")
    parser.add_argument("--write", action="store_true", help="write the diagram into CONTRIBUTING.md")
    arguments = parser.parse_args()
    if arguments.write:
        PAGE.write_text(page_with_picture(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(picture() if arguments.picture else table())


if __name__ == "__main__":
    main()
