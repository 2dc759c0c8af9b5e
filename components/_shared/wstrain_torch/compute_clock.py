"""How long this rank computes before it has to wait for the others.

The moment is when a backward pass has reached the model's first trained parameter, as a rule the last one to
get its gradient: what remains of the exchange from there on is waiting. On a CPU the time is the host's. A
GPU runs behind the host, so events in its stream are asked, for one step of a few, and only once they have
happened. A strategy that exchanges weights within its passes mixes computing and waiting; there nothing is
measured.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import nn

from wstrain.health.heartbeat import Heartbeat, Phase

EVERY = 8  # steps, of which one is timed on a GPU
_MOST_HELD = 16


def attach_compute_clock(heartbeat: Heartbeat, model: nn.Module, device: torch.device) -> None:
    """Let the model's backward passes tell the pulse when this rank has computed its gradients."""
    first = next((each for each in model.parameters() if each.requires_grad), None)
    if first is None:
        return
    hook = heartbeat.note_gradients if device.type != "cuda" else GpuClock(heartbeat).computed
    first.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]


class GpuClock:
    """Times steps by events of the GPU's stream.

    Args:
        heartbeat: what is told.
    """

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._pulse = heartbeat
        self._count = 0
        self._waiting: deque[tuple[Any, Any]] = deque(maxlen=_MOST_HELD)
        self._begun: Any = None
        heartbeat.on_step_begin = self._begin

    def _begin(self) -> None:
        self._count += 1
        if self._count % EVERY == 0:
            self._begun = _event()
            self._begun.record()

    def computed(self, *_: object) -> None:
        """Note the end of a backward pass, and take in what earlier ones took."""
        heartbeat = self._pulse
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
