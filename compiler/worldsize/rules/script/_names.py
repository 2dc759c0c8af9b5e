"""Which names a file binds anywhere; what is in none of these places is undefined."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from worldsize.rules.script._module import Module

_NAMED = (
    ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar
)


def bound(module: Module) -> set[str] | None:
    """Every name that the file binds in any way; None where a star import or ``exec`` may bind more."""
    if any(name.endswith("*") for name, _, _ in module.imports):
        return None
    if any(name in ("exec", "globals", "eval") for name, _ in module.calls):
        return None
    names = {name for node in module.nodes for name in _binds(node)}
    return names | set(module.names) | set(dir(builtins)) | {"__file__", "__name__", "__doc__", "__path__"}


def _binds(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, _NAMED) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    elif isinstance(node, ast.Global | ast.Nonlocal):
        yield from node.names
