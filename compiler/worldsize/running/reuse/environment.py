"""What the environment of a step is defined by: its definition, and here the Python that stands in for it."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from functools import cache
from typing import Any

from worldsize.azureml import environment
from worldsize.running.environments.planning import Plan
from worldsize.running.reuse.digests import Digests
from worldsize.running.tasks import Task


def identity(task: Task, plan: Plan, digests: Digests) -> dict[str, Any]:
    """As plain data.

    Args:
        task: The step.
        plan: What the environments of the run are.
        digests: Hashes the files that the definition names.

    Raises:
        OSError: Such a file cannot be read.
    """
    named = environment.list_references(task.component.environment, task.folder)
    found = plan.of(task.name)
    return {
        "mode": plan.mode,
        "definition": task.component.environment,
        "files": {each.key: digests.tree(each.path).digest() for each in named},
        "resolved": [found.image, found.dockerfile, found.conda, found.requirements],
        "context": None if found.context is None else digests.tree(found.context).digest(),
        "interpreter": None if plan.mode == "docker" else interpreter(),
    }


@cache
def interpreter() -> tuple[str, str, str]:
    """Where this Python is, its version, and what is installed in it: names and versions, not contents.

    What is installed for development counts by its version too; a step that uses such code has it in
    its own code folder, or shall be run with ``--force``.
    """
    # Its folder and not its program, which has several names.
    return sys.prefix, sys.version, hashlib.sha256("\n".join(_installed()).encode()).hexdigest()


def version(package: str) -> str | None:
    """The version of an installed package, read from names alone: ``importlib.metadata`` takes 20 ms."""
    starts = f"{package}-"
    found = [name for name in _installed() if name.startswith(starts)]
    return found[0].removeprefix(starts).rpartition(".")[0] if found else None


@cache
def _installed() -> list[str]:
    folders = [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]
    names = {name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)}  # noqa: PTH112, PTH208
    return sorted(name for name in names if name.endswith((".dist-info", ".egg-info")))
