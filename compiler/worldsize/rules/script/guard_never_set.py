"""A part runs only if a variable has a value, but nothing in the script sets that variable.

This is read from the text of the script and of the modules beside it that it imports; nothing is run.

Why: The script ends with ``NameError`` when it gets there: usually at the end, when the model is to be
saved.

Bad::

    if worker_index == 0:

Good::

    worker_index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]

Fix: Set it first; for TensorFlow from ``TF_CONFIG``, for PyTorch from ``RANK``.

Source: Microsoft Learn, Distributed GPU training guide: environment variables of each framework.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script import _names
from worldsize.rules.script._module import Module
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS922", "guard-never-set", "error", since="0.1.0", summary="a condition on a name that nothing sets"
)
_RANK = re.compile(r"rank|worker|task|chief|master|is_main", re.IGNORECASE)


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    for module in program.modules:
        for name in module.once(_never_set):
            message = f"`{name.id}` decides here, but nothing in the script sets it"
            source = 'json.loads(os.environ["TF_CONFIG"])["task"]["index"]'
            value = source if program.launch.kind == "tensorflow" else 'int(os.environ["RANK"])'
            help_ = f"set it first: `{name.id} = {value}`"
            yield RULE.problem(module.span(name), message, help_, related=program.related)


def _never_set(module: Module) -> list[ast.Name]:
    """The first of each name in a condition that nothing sets; conditions stand inside of each other."""
    bound = _names.bound(module)
    names = set() if bound is None else {name.id for name in module.kinds.get(ast.Name, ())} - bound
    unset = {name for name in names if _RANK.search(name)}
    found: dict[str, ast.Name] = {}
    seen: set[ast.AST] = set()
    for node in module.nodes if unset else ():
        if len(found) == len(unset):
            break
        if isinstance(node, ast.If | ast.IfExp) and node.test not in seen:
            for inner in ast.walk(node.test):
                seen.add(inner)
                if isinstance(inner, ast.Name) and inner.id in unset:
                    found.setdefault(inner.id, inner)
    return list(found.values())
