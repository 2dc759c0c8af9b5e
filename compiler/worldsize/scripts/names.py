"""Which names a file binds anywhere; what is in none of these places is undefined."""

from __future__ import annotations

import ast
import builtins

from worldsize.scripts.module import Module

_NAMED = (
    (ast.arg, "arg"),
    (ast.FunctionDef, "name"),
    (ast.AsyncFunctionDef, "name"),
    (ast.ClassDef, "name"),
    (ast.ExceptHandler, "name"),
    (ast.MatchAs, "name"),
    (ast.MatchStar, "name"),
    (ast.MatchMapping, "rest"),
)


def list_bound_names(module: Module) -> set[str] | None:
    """Every name that the file binds in any way; None where a star import or ``exec`` may bind more."""
    return module.once(_bound)


def _bound(module: Module) -> set[str] | None:
    if any(name.endswith("*") for name, _, _ in module.imports):
        return None
    if any(name in ("exec", "globals", "eval") for name, _ in module.calls):
        return None
    kinds = module.kinds
    names = {node.id for node in kinds.get(ast.Name, ()) if not isinstance(node.ctx, ast.Load)}
    names |= {name for kind, read in _NAMED for node in kinds.get(kind, ()) if (name := getattr(node, read))}
    names |= {
        name for kind in (ast.Global, ast.Nonlocal) for node in kinds.get(kind, ()) for name in node.names
    }
    return names | set(module.names) | set(dir(builtins)) | {"__file__", "__name__", "__doc__", "__path__"}
