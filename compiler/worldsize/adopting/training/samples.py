"""Where a script changes its samples at random: in a dataset of its own, or in what that calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.scripts.module import Module

_DRAWS = re.compile(
    r"(?:random|numpy\.random|np\.random|.*(?:rng|generator))\.(?:random|rand|randn|randint|randrange|integers|uniform|normal"
    r"|standard_normal|gauss|choice|choices|beta|binomial)|torch\.(?:rand|randn|randint)"
)


def list_sample_draws(module: Module) -> Iterator[ast.Call]:
    """The calls that draw random numbers for a sample."""
    functions = {node.name: node for node in module.kinds.get(ast.FunctionDef, ())}
    methods = [
        each
        for node in module.kinds.get(ast.ClassDef, ())
        if any(getattr(each, "name", "") in ("__getitem__", "__call__") for each in node.body)
        and not any("Module" in ast.unparse(base) for base in node.bases)
        for each in node.body
        if isinstance(each, ast.FunctionDef) and each.name != "__init__"
    ]
    called = {
        functions[node.id]
        for method in methods
        for node in ast.walk(method)
        if isinstance(node, ast.Name) and node.id in functions
    }
    given = [
        functions[keyword.value.id]
        for call in module.called("DataLoader")
        for keyword in call.keywords
        if keyword.arg == "collate_fn" and getattr(keyword.value, "id", "") in functions
        if isinstance(keyword.value, ast.Name)
    ]
    for function in dict.fromkeys((*methods, *called, *given)):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _DRAWS.fullmatch(module.name_of(node.func)):
                yield node
