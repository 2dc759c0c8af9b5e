"""Measures how long this rank computes in a step before it waits for the others.

Computing ends when the backward pass reaches the model's first trained parameter, as a rule the last one to
get its gradient: the rest of the exchange is waiting. On a CPU the host's clock is read. A GPU runs behind
the host, so every few steps events are put into its stream and read once they have happened. Strategies that
exchange weights within a pass mix computing and waiting, so they are not measured.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import nn

from wstrain.health.heartbeat import Heartbeat, Phase

EVERY_STEPS = 8  # one step in this many is timed on a GPU
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
        self._waiting: deque[tuple[Any, Any]] = deque(maxlen=_MAX_PENDING)
        self._begun: Any = None
        heartbeat.on_step_begin = self._begin

    def _begin(self) -> None:
        self._count += 1
        if self._count % EVERY_STEPS == 0:
            self._begun = _event()
            self._begun.record()

    def computed(self, *_: object) -> None:
        """Note the end of a backward pass, and collect the times of earlier ones."""
        heartbeat = self._heartbeat
        if heartbeat.micro != heartbeat.micro_batches - 1 or heartbeat.phase != Phase.COMPUTING:
            return
        heartbeat.mark(Phase.EXCHANGING, heartbeat.micro)
        if self._begun is not None:
            end = _event()
            end.record()
            self._waiting.append((self._begun, end))
            self._begun = None
        while self._waiting and self._waiting[0][1].query():
            begin, end = self._waiting.popleft()
            heartbeat.compute_seconds += begin.elapsed_time(end) / 1000
            heartbeat.compute_steps += 1


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
