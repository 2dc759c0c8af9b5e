"""Measures how long this rank computes in a step before it waits for the others, and how long for data.

Computing ends when the backward pass reaches the model's first trained parameter, as a rule the last one to
get its gradient: the rest of the exchange is waiting. On a CPU the host's clock is read. A GPU runs behind
the host, so every few steps events are put into its stream and read once they have happened. Strategies that
exchange weights within a pass mix computing and waiting, so they are not measured.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain_torch.data import Batch

EVERY_STEPS = 8  # one step in this many is timed on a GPU
TIMED_BATCHES = 16  # that one judgement of the loader covers
MOST_WAITING = 0.03  # of a step; less is not worth a warning
_MAX_PENDING = 16


def attach_compute_clock(heartbeat: Heartbeat, model: nn.Module, device: torch.device) -> None:
    """Let the model's backward passes tell the heartbeat when this rank has computed its gradients."""
    first = next((parameter for parameter in model.parameters() if parameter.requires_grad), None)
    if first is None:
        return
    hook = heartbeat.note_gradients if device.type != "cuda" else GpuClock(heartbeat).computed
    first.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]


class GpuClock:
    """Times steps by events in the GPU's stream.

    Args:
        heartbeat: collects the times.
    """

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._count = 0
        self._intervals = _Intervals()
        self._begun: Any = None
        heartbeat.on_step_begin = self._begin

    def _begin(self) -> None:
        self._count += 1
        if self._count % EVERY_STEPS == 0:
            self._begun = _record_event()

    def computed(self, *_: object) -> None:
        """Note the end of a backward pass, and collect the times of earlier ones."""
        heartbeat = self._heartbeat
        if heartbeat.micro != heartbeat.micro_batches - 1 or heartbeat.phase != Phase.COMPUTING:
            return
        heartbeat.mark(Phase.EXCHANGING, heartbeat.micro)
        if self._begun is not None:
            self._intervals.add(self._begun, _record_event())
            self._begun = None
        for seconds in self._intervals.take():
            heartbeat.compute_seconds += seconds
            heartbeat.compute_steps += 1


class LoaderClock:
    """Batches as the loader gives them to a GPU, with one warning if the GPU waits for them.

    A GPU that is fed in time passes from the event before a batch to the one after it at once.

    Args:
        batches: of the loader.
        workers: threads that prefetch them.
        warn: is called with the sentence.
    """

    def __init__(self, batches: Iterator[Batch], workers: int, warn: Callable[[str], None]) -> None:
        self._batches, self._workers, self._warn = batches, workers, warn
        self._warned = False
        self._intervals = _Intervals()
        self._forget()

    def _forget(self) -> None:
        self._count, self._timed, self._waited, self._since = 0, 0, 0.0, time.perf_counter()

    def __iter__(self) -> Iterator[Batch]:
        """Return the iterator itself."""
        return self

    def __next__(self) -> Batch:
        """Return the next batch."""
        self._count += 1
        if self._count % EVERY_STEPS or self._warned:
            return next(self._batches)
        before = _record_event()
        batch = next(self._batches)
        self._intervals.add(before, _record_event())
        for seconds in self._intervals.take():
            self._waited += seconds
            self._timed += 1
        if self._timed >= TIMED_BATCHES:
            self._judge()
        return batch

    def _judge(self) -> None:
        share = self._waited / self._timed / ((time.perf_counter() - self._since) / self._count)
        if share > MOST_WAITING:
            self._warned, cores = True, len(os.sched_getaffinity(0))
            more = "raise it" if self._workers < cores else f"this machine has {cores} cores"
            self._warn(
                f"the GPU waits for data for {share:.0%} of each step, with `loader_workers` {self._workers}:"
                f" {more}"
            )
        self._forget()


class _Intervals:
    """Times between two events in the GPU's stream, read once both have happened."""

    def __init__(self) -> None:
        self._pending: deque[tuple[Any, Any]] = deque(maxlen=_MAX_PENDING)

    def add(self, begin: Any, end: Any) -> None:
        self._pending.append((begin, end))

    def take(self) -> Iterator[float]:
        """The seconds of those that are over, each once."""
        while self._pending and self._pending[0][1].query():
            begin, end = self._pending.popleft()
            yield begin.elapsed_time(end) / 1000


def _record_event() -> Any:
    event = _event()
    event.record()
    return event


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
