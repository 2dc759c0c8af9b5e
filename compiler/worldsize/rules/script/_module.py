"""One Python file as rules look at it: parsed once, names of imports resolved, every node with its parent."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from msgspec import Struct, field

from worldsize.yaml.source import Source
from worldsize.yaml.span import Span


class Module(Struct, eq=False):
    """A parsed file. ``names`` maps what imports bind: ``dist`` to ``torch.distributed``."""

    source: Source
    tree: ast.Module
    nodes: list[ast.AST] = field(default_factory=list)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    imports: list[tuple[str, int, ast.stmt]] = field(default_factory=list)  # full name, level, statement
    calls: list[tuple[str, ast.Call]] = field(default_factory=list)
    callers: dict[str, list[ast.Call]] = field(default_factory=dict)  # by the last part of the name
    by_rank: set[str] | None = None  # variables worked out from a rank, once asked for
    left_before: dict[ast.AST, set[ast.AST]] = field(default_factory=dict)  # see _ranks, by what is around

    @property
    def text(self) -> str:
        """The whole file."""
        return self.source.text

    def span(self, node: ast.AST) -> Span:
        """The place of a node; of a longer one only its first line."""
        line, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
        start = self._column(line, getattr(node, "col_offset", 0))
        if last != line:
            return Span(self.source.path, line, start, line, len(self.source.line(line)) + 1)
        return Span(
            self.source.path, line, start, line, self._column(line, getattr(node, "end_col_offset", 0))
        )

    def _column(self, line: int, offset: int) -> int:
        """Python counts bytes, we count characters."""
        text = self.source.line(line)
        return (offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))) + 1

    def name_of(self, node: ast.AST) -> str:
        """``torch.distributed.get_rank`` for ``dist.get_rank``; ``?.fit`` where the start is no name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        first = self.names.get(node.id, node.id) if isinstance(node, ast.Name) else "?"
        return ".".join([first, *reversed(parts)])

    def ancestors(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Each node above, with the child through which it was reached."""
        while node in self.parents:
            above = self.parents[node]
            yield above, node
            node = above

    def function_of(self, node: ast.AST) -> ast.AST:
        """The innermost function around a node, or the module."""
        for above, _ in self.ancestors(node):
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return above
        return self.tree

    def called(self, *endings: str) -> list[ast.Call]:
        """Calls whose name is, or ends with a dot and, one of these."""
        return [call for name, call in self.calls if any(f".{name}".endswith(f".{end}") for end in endings)]


def parse(source: Source) -> Module | None:
    """Parse a file; None where it is not the Python of this interpreter."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
        module = Module(source, tree)
        _index(module)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return module


def _index(module: Module) -> None:
    module.nodes = list(ast.walk(module.tree))
    for node in module.nodes:
        for child in ast.iter_child_nodes(node):
            module.parents[child] = node
        if isinstance(node, ast.Import):
            for alias in node.names:
                module.imports.append((alias.name, 0, node))
                top = alias.name.partition(".")[0]
                module.names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}" if node.module else alias.name
                module.imports.append((full, node.level, node))
                module.names[alias.asname or alias.name] = full
    for node in module.nodes:
        if isinstance(node, ast.Call):
            name = module.name_of(node.func)
            module.calls.append((name, node))
            module.callers.setdefault(name.rpartition(".")[2], []).append(node)


def mentions(node: ast.AST | None) -> Iterator[str]:
    """Every name, attribute and text inside a node."""
    for inner in ast.walk(node) if node is not None else ():
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
        elif isinstance(inner, ast.arg):
            yield inner.arg
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((one.value for one in call.keywords if one.arg == name), None)


def constant(node: ast.AST | None) -> object:
    """The value of a literal, else None."""
    return node.value if isinstance(node, ast.Constant) else None


def variable_read(node: ast.AST) -> str | None:
    """The name, where a node reads an environment variable: ``os.environ["X"]`` or ``getenv("X")``."""
    name: ast.AST | None = None
    if isinstance(node, ast.Subscript) and _is_environ(node.value):
        name = node.slice
    elif isinstance(node, ast.Call) and node.args:
        function = node.func
        if isinstance(function, ast.Attribute) and (
            function.attr == "getenv" or (function.attr in ("get", "pop") and _is_environ(function.value))
        ):
            name = node.args[0]
    found = constant(name)
    return found if isinstance(found, str) else None


def _is_environ(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id in ("environ", "env")
    )


def variable_writes(module: Module) -> Iterator[tuple[str, ast.expr, ast.stmt]]:
    """``os.environ["X"] = value``: name, value, statement."""
    for node in module.nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                name = variable_read(target) if isinstance(target, ast.Subscript) else None
                if name:
                    yield name, node.value, node


def conditional(module: Module, node: ast.AST) -> bool:
    """Whether it is done only in some case, such as outside of Azure ML."""
    return any(
        isinstance(above, ast.If | ast.Try | ast.ExceptHandler)
        and "__main__" not in ast.dump(getattr(above, "test", above))
        for above, _ in module.ancestors(node)
    )
