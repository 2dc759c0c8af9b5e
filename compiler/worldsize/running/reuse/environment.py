"""What the environment of a step is defined by: its definition, and here the Python that stands in for it."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from functools import cache
from typing import Any

from worldsize.azureml import environment
from worldsize.running.reuse.digests import Digests
from worldsize.running.tasks import Task


def identity(task: Task, mode: str, digests: Digests) -> dict[str, Any]:
    """As plain data.

    Args:
        task: The step.
        mode: What interprets it: ``current``, ``isolated`` or ``docker``.
        digests: Hashes the files that the definition names.

    Raises:
        OSError: Such a file cannot be read.
    """
    named = environment.references(task.component.environment, task.folder)
    return {
        "mode": mode,
        "definition": task.component.environment,
        "files": {found.key: digests.tree(found.path).digest() for found in named},
        "interpreter": None if mode == "docker" else interpreter(),
    }


@cache
def interpreter() -> tuple[str, str, str]:
    """Where this Python is, its version, and what is installed in it: names and versions, not contents.

    What is installed for development counts by its version too; a step that uses such code has it in
    its own code folder, or shall be run with ``--force``.
    """
    folders = [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]
    names = {name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)}  # noqa: PTH112, PTH208
    installed = sorted(name for name in names if name.endswith((".dist-info", ".egg-info")))
    return sys.executable, sys.version, hashlib.sha256("\n".join(installed).encode()).hexdigest()
