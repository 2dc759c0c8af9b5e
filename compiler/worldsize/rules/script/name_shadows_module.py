"""A file or package beside the script has the same name as an imported package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.program import Program

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


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    folder = program.path.parent
    for module in program.modules:
        for name, level, statement in module.imports:
            top = name.partition(".")[0]
            if level or top not in _PACKAGES:
                continue
            for path in (folder / f"{top}.py", folder / top / "__init__.py"):
                if context.exists(path) and not _extends_path(context, path):
                    shown = path.name if path.parent == folder else f"{top}/"
                    message = f"`import {top}` finds `{shown}` beside the script, not the package"
                    yield Finding(
                        module.span(statement), message, f"rename `{shown}`", related=program.related
                    )
                    return


# A namespace package says so in one of these calls: the installed part of it is found as well.
_EXTENDS = re.compile(r"\bextend_path\s*\(|\bdeclare_namespace\s*\(")


def _extends_path(context: Context, path: Path) -> bool:
    source = context.text(path)
    return source is not None and _EXTENDS.search(source.text) is not None
