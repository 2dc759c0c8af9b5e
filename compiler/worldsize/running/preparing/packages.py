"""Whether the packages that built-in components import are in this Python, asked before a run starts."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence

from worldsize import resources
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.running.tasks import Task

# The modules that each extra of the package brings; pyproject.toml has their versions.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "run": ("matplotlib", "mlflow", "numpy", "pandas", "PIL", "psutil", "pyarrow", "sklearn", "torch"),
    "tensorflow": ("tensorflow",),
    "deepspeed": ("deepspeed",),
}
LONGEST_LIST = 4
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
_LARGEST = 1 << 20  # bytes of a script that are read


def missing(tasks: Mapping[str, Task], code: Mapping[str, Snapshot]) -> list[Problem]:
    """One problem for all that built-in components import and this Python lacks, at the first such step.

    A script of the user's own is not judged: it may import what it can do without.
    """
    absent = {
        module: extra
        for extra, modules in EXTRAS.items()
        for module in modules
        if importlib.util.find_spec(module) is None
    }
    if not absent:
        return []
    shared = {folder.name for folder in (resources.components() / "_shared").iterdir() if folder.is_dir()}
    needed: dict[str, list[str]] = {}
    for name, snapshot in code.items():
        if any(file.partition("/")[0] in shared for file in snapshot.files):
            needed[name] = sorted(set(_imported(snapshot)) & absent.keys())
    steps = [name for name, modules in needed.items() if modules]
    if not steps:
        return []
    modules = sorted({module for found in needed.values() for module in found})
    extras = ",".join(extra for extra in EXTRAS if extra in {absent[module] for module in modules})
    message = f"step `{steps[0]}` imports {_listed(modules)}, which this Python does not have"
    if len(steps) > 1:
        message = f"steps {_listed(steps)} import {_listed(modules)}, which this Python does not have"
    span = tasks[steps[0]].span or Span("pipeline", 1, 1, 1, 1)
    return [Problem("run-refused", span, message, f"run `pip install 'worldsize[{extras}]'`")]


def _imported(snapshot: Snapshot) -> Iterator[str]:
    for name in snapshot.files:
        if name.endswith(".py"):
            yield from _IMPORT.findall(snapshot.content(name, _LARGEST).decode("utf-8", "replace"))


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    if len(quoted) > LONGEST_LIST:
        quoted = [*quoted[: LONGEST_LIST - 1], f"{len(quoted) - LONGEST_LIST + 1} more"]
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
