"""A condition in the script uses a variable that nothing sets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.module import Module, list_bound_names
from worldsize.scripts.program import Program

_RANK = re.compile(r"rank|worker|task|chief|master|is_main", re.IGNORECASE)


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    for module in program.modules:
        for name in module.once(_never_set):
            message = f"this condition reads `{name.id}`, but nothing in the script sets it"
            source = 'json.loads(os.environ["TF_CONFIG"])["task"]["index"]'
            value = source if program.launch.kind == "tensorflow" else 'int(os.environ["RANK"])'
            help_ = f"set it first: `{name.id} = {value}`"
            yield Finding(module.span(name), message, help_, related=program.related)


def _never_set(module: Module) -> list[ast.Name]:
    """The first use in a condition of every name that nothing sets."""
    used = {name.id for name in module.kinds.get(ast.Name, ())}
    ranks = {name for name in used if _RANK.search(name)}
    bound = list_bound_names(module) if ranks else None  # few files speak of ranks
    unset = ranks - bound if bound is not None else set()
    nodes: dict[str, ast.Name] = {}
    seen: set[ast.AST] = set()
    for node in module.nodes if unset else ():
        if len(nodes) == len(unset):
            break
        if isinstance(node, ast.If | ast.IfExp) and node.test not in seen:
            for inner in ast.walk(node.test):
                seen.add(inner)
                if isinstance(inner, ast.Name) and inner.id in unset:
                    nodes.setdefault(inner.id, inner)
    return list(nodes.values())
