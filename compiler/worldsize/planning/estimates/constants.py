"""Constants of the step-time model, as ``tests/benchmarks/scaling/fit.py`` fits them on published speeds."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from worldsize.facts import table

# An architecture that no published speed was fitted on has the constants of a related one.
RELATED = {"kepler": "pascal", "turing": "volta", "blackwell": "hopper", "cdna3": "hopper"}


class Constants(Struct, frozen=True):
    """Shares are of the vendor's peak; those by architecture are dictionaries."""

    matmul_share: dict[str, float]  # of the peak rate, large matrix products reach
    attention_share: dict[str, float]  # of the peak rate, attention reaches; its FLOPs count no causal mask
    launch_seconds: dict[str, float]  # of the host, for the kernels of one layer, forward and backward
    straggler_share: dict[str, float]  # of computation, by which instances differ (one standard deviation)
    precision_gain: dict[str, float]  # of `matmul_share` in fp32, tf32 and fp8 over 16 bits
    convolution_share: dict[str, float]  # of the peak rate: fp32, and with tensor cores
    convolution_touches: dict[str, float]  # times that an activation is read or written, forward and backward
    recomputed_share: dict[str, float]  # of the forward pass, in the backward one
    memory_share: float  # of the memory's peak bandwidth
    layer_touches: float  # numbers read or written for each token and each unit of width, a layer's forward
    score_touches: float  # for each attention score where attention is not fused
    head_touches: float  # for each logit, forward and backward
    weight_touches: float  # bytes moved for each gathered weight and its gradient, a micro-batch
    saturation_tokens: float  # tokens of a micro-batch at which matrix products reach half their share
    exposed_share: float  # of the exchanges of sharded weights, what computation does not hide
    exposed_share_replicated: float  # the same of gradients alone
    link_share: float  # of the links' rate inside an instance, collectives reach
    rdma_share: float  # the same between instances
    tcp_share: float  # the same without RDMA
    hop_seconds: float  # of one collective, for each doubling of instances
    step_seconds: float  # of a step, whatever its size

    def pick(self, values: dict[str, float], architecture: str) -> float:
        """The value of an architecture, else of the related one."""
        return values[architecture] if architecture in values else values[RELATED[architecture]]


@cache
def fitted() -> Constants:
    """The constants of ``step_time_constants.csv``."""
    values: dict[str, float | dict[str, float]] = {}
    for row in table.read_rows("step_time_constants"):
        name, _, key = row["name"].partition(".")
        if not key:
            values[name] = float(row["value"])
            continue
        group = values.setdefault(name, {})
        assert isinstance(group, dict)
        group[key] = float(row["value"])
    return Constants(**values)  # type: ignore[arg-type]
