"""How a model is trained, as far as memory depends on it."""

from __future__ import annotations

from msgspec import Struct

HALF = ("bf16", "fp16")


class Setup(Struct, frozen=True):
    """One rank's share of a training.

    ``strategy`` is that of the component, ``deepspeed`` and ``horovod`` among them; ``data``, ``tensor`` and
    ``pipeline`` are the degrees, whose product is the world size. ``stage`` is ZeRO's. ``rank`` counts the
    stages of a pipeline; every other division is shown for the rank with the most.
    """

    strategy: str
    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    micro_batch: int = 1
    accumulation: int = 1
    optimizer: str = "sgd"
    momentum: float = 0.9
    precision: str = "fp32"
    checkpointing: bool = False  # of activations, block by block
    gpu: bool = True
    stage: int = 0
    offload_optimizer: bool = False
    offload_parameters: bool = False
    bucket: int = 50_000_000  # numbers that DeepSpeed reduces or gathers at once
    reshard: str = "auto"  # of FSDP: auto, always, never
    reduce_always: bool = False  # FSDP averages gradients after each micro-batch
    cpu_offload: bool = False  # of FSDP
    schedule: str = "gpipe"

    @property
    def narrow(self) -> int:
        """Bytes of a number in the arithmetic of the forward pass."""
        return 2 if self.precision in HALF else 4

    @property
    def moments(self) -> int:
        """Numbers that the optimizer remembers of each weight: two of Adam's, one of momentum."""
        if self.optimizer == "sgd":
            return 1 if self.momentum else 0
        return 2
