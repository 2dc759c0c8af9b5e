"""The script uses a well-known module without importing it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.edits import add_import
from worldsize.scripts.module import Module, list_bound_names
from worldsize.scripts.program import Program

_SAME = (
    "os",
    "sys",
    "json",
    "time",
    "math",
    "random",
    "argparse",
    "logging",
    "shutil",
    "glob",
    "re",
    "torch",
    "mlflow",
)
_MODULES = {name: f"import {name}" for name in _SAME} | {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "tf": "import tensorflow as tf",
    "dist": "import torch.distributed as dist",
    "hvd": "import horovod.torch as hvd",
}


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    for module in program.modules:
        for base in module.once(_not_imported):
            message = f"`{base.id}` is used here, but nothing imports it"
            help_ = f"write `{_MODULES[base.id]}` at the top"
            # Without the import the script ends here; the short names can stand for other packages.
            is_safe = base.id in sys.stdlib_module_names
            fix = add_import(module, _MODULES[base.id], safe=is_safe)
            yield Finding(module.span(base), message, help_, related=program.related, fix=fix)


def _not_imported(module: Module) -> list[ast.Name]:
    """The first use of each module that nothing binds."""
    bound = list_bound_names(module)
    missing = set() if bound is None else _MODULES.keys() - bound
    nodes: dict[str, ast.Name] = {}
    for node in module.kinds.get(ast.Attribute, ()) if missing else ():
        base = node.value
        if isinstance(base, ast.Name) and base.id in missing:
            nodes.setdefault(base.id, base)
    return list(nodes.values())
