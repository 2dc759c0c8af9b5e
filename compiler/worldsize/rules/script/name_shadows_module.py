"""A file or package beside the script has the name of a package that is imported.

Python looks in the script's folder first. This is read from the text of the script and of the modules
beside it that it imports; nothing is run.

Why: ``import torch`` finds the user's own file, and fails or finds half of what it needs.

Bad::

    import torch

Good::

    import torch

Fix: Rename the file.

Source: Python documentation, The module search path.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS932", "name-shadows-module", "error", since="0.1.0", summary="a file named like a package it hides"
)
_PACKAGES = frozenset(
    {
        "torch",
        "torchvision",
        "tensorflow",
        "keras",
        "horovod",
        "mpi4py",
        "deepspeed",
        "mlflow",
        "numpy",
        "pandas",
    }
    | {
        "transformers",
        "accelerate",
        "lightning",
        "ray",
        "azureml",
        "sklearn",
        "random",
        "logging",
        "json",
        "types",
    }
    | {"queue", "copy", "socket", "platform", "inspect", "signal", "statistics", "typing", "string"}
)


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    folder = program.path.parent
    for module in program.modules:
        for name, level, statement in module.imports:
            top = name.partition(".")[0]
            if level or top not in _PACKAGES:
                continue
            for path in (folder / f"{top}.py", folder / top / "__init__.py"):
                if context.exists(path):
                    shown = path.name if path.parent == folder else f"{top}/"
                    message = f"`import {top}` finds `{shown}` beside the script, not the package"
                    yield RULE.problem(
                        module.span(statement), message, f"rename `{shown}`", related=program.related
                    )
                    return
