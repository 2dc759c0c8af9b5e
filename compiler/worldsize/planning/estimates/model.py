"""The question: a workload, how it is trained, on which cluster. The answer: its speed, with an interval."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from worldsize.facts.gpus import Gpu
from worldsize.spec.workload import Workload

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]
Strategy = Literal["ddp", "fsdp", "deepspeed", "horovod"]
Recomputation = Literal["none", "selective", "full"]
Bound = Literal["compute", "network", "memory", "input", "latency"]


class Training(Struct, frozen=True):
    """How a workload is trained. ``micro_batch`` is the samples of one GPU in one pass."""

    micro_batch: int
    accumulation: int = 1
    precision: Precision = "fp32"
    strategy: Strategy = "ddp"
    zero_stage: int = 0
    recomputation: Recomputation = "none"  # of activations in the backward pass
    optimizer: str = "adamw"
    tensor_parallel: int = 1
    pipeline_parallel: int = 1

    @property
    def number_bytes(self) -> int:
        """Bytes of a number in the arithmetic of the forward pass; 8-bit matrices leave 16-bit results."""
        return 4 if self.precision in ("fp32", "tf32") else 2


class Cluster(Struct, frozen=True):
    """Equal instances. Rates are bytes a second in one direction; None where unknown."""

    gpu: Gpu
    gpus_per_instance: int
    instance_count: int
    link_bytes_per_s: float | None  # of one GPU to the others of its instance
    network_bytes_per_s: float | None  # of one instance, all adapters together
    rdma: bool | None
    instance_type: str | None = None
    input_samples_per_s: float | None = None  # that the loaders of one instance deliver

    @property
    def world_size(self) -> int:
        """GPUs of all instances."""
        return self.gpus_per_instance * self.instance_count


class Case(Struct, frozen=True):
    """The whole question."""

    workload: Workload
    training: Training
    cluster: Cluster

    @property
    def weights(self) -> float:
        """Parameters of one rank's share of the layers, before any sharding."""
        return self.workload.parameters / (self.training.tensor_parallel * self.training.pipeline_parallel)

    @property
    def trained_weights(self) -> float:
        """Those of them that are trained, which alone have gradients and an optimizer's state."""
        return self.weights * self.workload.trained_share

    @property
    def replicas(self) -> int:
        """Copies of the model: the degree of data parallelism."""
        return self.cluster.world_size // (self.training.tensor_parallel * self.training.pipeline_parallel)

    @property
    def global_batch(self) -> int:
        """Samples of one optimizer step."""
        return self.training.micro_batch * self.training.accumulation * self.replicas


class Interval(Struct, frozen=True):
    """An expected value, and the bounds within which four of five measurements should lie."""

    low: float
    expected: float
    high: float

    def scale(self, factor: float) -> Interval:
        """The interval of so many times the quantity."""
        return Interval(self.low * factor, self.expected * factor, self.high * factor)


class StepTime(Struct, frozen=True):
    """Where the seconds of one optimizer step go; the parts add up to it."""

    compute: float  # matrix products, attention and convolutions
    memory: float  # reading and writing activations and weights between them, and the optimizer
    communication: float  # exchanges that no computation hides
    bubble: float  # ranks of a pipeline that wait for their first or after their last micro-batch
    input: float  # waiting for data
    latency: float  # launches, stragglers and start-up of collectives

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.compute + self.memory + self.communication + self.bubble + self.input + self.latency


class Estimate(Struct, frozen=True):
    """The speed of a training; None where a quantity cannot be known or has no meaning."""

    samples_per_second: Interval  # of the whole cluster
    step_seconds: Interval  # one optimizer step, all micro-batches
    tokens_per_second_per_gpu: Interval | None
    model_flops_utilisation: float | None  # without recomputation (Chowdhery et al. 2022, appendix B)
    scaling_efficiency: float | None  # speed over GPUs × the speed of one GPU
    bound: Bound
    parts: StepTime
    basis: str  # what the interval rests on
