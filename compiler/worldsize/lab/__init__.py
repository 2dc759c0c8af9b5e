"""Emulates several machines, and injects faults: `--nodes`, `--link`, `--kill`, `--drop-link` and `--chaos`.

With ``--nodes namespaces`` each instance of a step has its own network, host name and mount namespaces. These
have no names. Open descriptors of the runner, and the processes in them, keep them alive. When both are gone,
even by SIGKILL, the kernel removes the namespaces with their links and mounts. They are not visible in the
network of this machine.

``emulation`` reads the options, ``namespaces`` plans the links of nodes and holds these while a step runs.
``maker.py`` makes nodes and ``enter.py`` starts a program in one; both are separate programs. ``faults``
kills nodes and cuts links on request, and draws faults from a seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worldsize.base.problem import Problem
    from worldsize.running.model.emulation import Emulation, Networks
    from worldsize.running.model.options import RunOptions
    from worldsize.running.model.task import Task


def emulate(
    options: RunOptions, tasks: Mapping[str, Task], networks: Networks
) -> tuple[Emulation, list[Problem]]:
    """What the options of a run emulate, and every reason why that is impossible here."""
    from worldsize.lab import emulation  # few runs emulate anything

    return emulation.read_emulation(options, tasks, networks)
