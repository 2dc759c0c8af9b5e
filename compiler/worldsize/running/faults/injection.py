"""Injects the faults that a user requests: kills all processes of a node, or cuts its link."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from worldsize.running.engine.attempt import Attempt
from worldsize.running.nodes.emulation import NodeFault, describe_fault
from worldsize.running.nodes.namespaces import KILL_SECONDS, Namespaces


@dataclass(slots=True)
class FaultInjector:
    """Watches running steps and injects each fault once; a ``steps.Watcher``."""

    ordered: Sequence[NodeFault]  # the faults, each with its step
    places: Namespaces | None  # where the nodes are; None where they are only processes
    say: Callable[[str], None]  # tells the user
    _done: set[NodeFault] = field(default_factory=set)
    _cut: list[tuple[float, NodeFault, Attempt]] = field(default_factory=list)  # when to restore the link

    def tick(self, attempts: Collection[Attempt]) -> None:
        """Inject the faults that are due."""
        for attempt in attempts:
            for fault in self.ordered:
                if fault.step == attempt.task.name and fault not in self._done and _is_due(fault, attempt):
                    self._done.add(fault)
                    self._happen(fault, attempt)
        now = time.monotonic()
        for each in [each for each in self._cut if each[0] <= now]:
            self._cut.remove(each)
            if any(each[2] is attempt for attempt in attempts):
                self._plug(each[1])

    def account(self) -> None:
        """Report the faults that were never due."""
        for fault in self.ordered:
            if fault not in self._done:
                self.say(f"`{fault.option}` had no effect: step `{fault.step}` ended before that time")

    def _happen(self, fault: NodeFault, attempt: Attempt) -> None:
        assert attempt.group is not None
        description = describe_fault(fault, attempt.group.ranks)
        newest = attempt.progress.newest
        reached = f", at step {newest.step}" if newest is not None and newest.step is not None else ""
        self.say(f"{attempt.task.name}: {description}{reached}")
        site = self.places.sites.get(attempt.task.name) if self.places else None
        if fault.kind == "kill":
            attempt.blame = description
            if site is not None:
                site.kill(site.nodes[fault.node])
            else:
                kill_processes(attempt.context.run.step(attempt.task.name).progress, fault.node)
        elif site is not None:
            try:
                site.pull(site.nodes[fault.node])
            except OSError as error:
                self.say(f"{attempt.task.name}: {error.strerror}")
                return
            if fault.lasts is not None:
                self._cut.append((time.monotonic() + fault.lasts, fault, attempt))

    def _plug(self, fault: NodeFault) -> None:
        site = self.places.sites.get(fault.step or "") if self.places else None
        if site is None:
            return
        try:
            site.pull(site.nodes[fault.node], plug=True)
        except OSError as error:
            self.say(f"{fault.step}: {error.strerror}")
        else:
            self.say(f"{fault.step}: the link of {fault.where} is up again")


def _is_due(fault: NodeFault, attempt: Attempt) -> bool:
    if attempt.group is None or attempt.group.done or attempt.began is None:
        return False
    newest = attempt.progress.newest
    return fault.is_due(time.monotonic() - attempt.began, newest.step if newest else None)


def kill_processes(progress: Path, node: int) -> int:
    """Kill the processes of an instance that is not a namespace, and count them.

    They are recognised by their variables: every process of the step, and no other, has the path of its
    progress file.
    """
    marks = {f"WORLDSIZE_PROGRESS={progress}".encode(), f"AZUREML_CR_NODE_RANK={node}".encode()}
    killed: set[int] = set()
    deadline = time.monotonic() + KILL_SECONDS
    while (pids := _find_marked(marks)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        killed.update(pids)
    return len(killed)


def _find_marked(marks: set[bytes]) -> list[int]:
    """The pids of the processes that have all these variables."""
    pids = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted
        with contextlib.suppress(OSError):
            if name.isdigit() and marks <= set(Path(f"/proc/{name}/environ").read_bytes().split(b"\0")):
                pids.append(int(name))
    return pids
