"""The optional functions of a user's model file that the trainers call by name, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span

_CALLS = {
    "loss": "loss(outputs, targets)",
    "metrics": "metrics(outputs, targets)",
    "prepare": "prepare(inputs) or prepare(inputs, generator)",
}


def check_hooks(tree: ast.Module, path: Path, function: str, model: Span) -> Iterator[Problem]:
    """Report hooks whose parameters do not fit the trainers' call.

    Args:
        tree: the user's file.
        path: its name.
        function: the one that makes the model, which is no hook.
        model: where the file is named.
    """
    for name, call in _CALLS.items():
        found = [node for node in tree.body if name in _bound_names(node)]
        hook = found[0] if len(found) == 1 else None
        # A decorator may change the parameters, and another binding may replace the function.
        if not isinstance(hook, ast.FunctionDef) or hook.decorator_list or name == function:
            continue
        if _accepts(hook.args, 2) or (name == "prepare" and _accepts(hook.args, 1)):
            continue
        start = hook.col_offset + len("def ") + 1
        span = Span(str(path), hook.lineno, start, hook.lineno, start + len(name))
        message = f"`{name}({ast.unparse(hook.args)})` cannot be called as `{call}`, as the training does"
        help_ = "change its parameters, or rename it if it is not meant for the training"
        yield Problem("user-hook-signature", span, message, help_, (Related(model, "the model's file"),))


def _accepts(arguments: ast.arguments, count: int) -> bool:
    """Whether a function with these parameters can be called with so many positional arguments."""
    positional = len(arguments.posonlyargs) + len(arguments.args)
    needed = positional - len(arguments.defaults)
    most = count if arguments.vararg is not None else positional
    return needed <= count <= most and all(default is not None for default in arguments.kw_defaults)


def _bound_names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    inner = [each for each in ast.walk(node) if isinstance(each, ast.stmt) and each is not node]
    stored = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    names = {each.id for each in stored if isinstance(each.ctx, ast.Store | ast.Del)}
    if isinstance(node, ast.Import | ast.ImportFrom):
        names |= {alias.asname or alias.name for alias in node.names}
    return names.union(*(_bound_names(each) for each in inner))
