"""The least memory that one GPU needs for a workload: weights, gradients, optimizer, activations, logits.

``planning.memory`` counts built-in models layer by layer; this is the same in closed form, for any
transformer, by the leanest software known, so that what does not fit here does not fit at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.wording import format_memory
from worldsize.planning.estimates.model import Case, Cluster, Training
from worldsize.planning.memory.network import gpu_constants
from worldsize.planning.memory.verdict import Change, find_fewest_changes
from worldsize.spec.workload import Convolutional, Transformer

# Numbers of 16 bits that a layer keeps for each token and unit of width: 34 bytes, without dropout masks and
# stored scores (Korthikanti et al. 2022, arXiv:2205.05198, section 4.1, equation 2, less 2 of dropout).
_KEPT_PER_LAYER = 16
_KEPT_SCORES = 2  # for each attention score where attention is not fused: before and after the softmax
_MOMENTS = {"sgd": 1, "adam": 2, "adamw": 2, "lamb": 2}


class MemoryNeed(Struct, frozen=True):
    """Bytes of the GPU that needs most."""

    states: float  # weights, gradients, optimizer
    working: float  # gathered weights and 16-bit copies
    activations: float
    logits: float

    @property
    def total(self) -> float:
        """All of it, with the context of the GPU."""
        return self.states + self.working + self.activations + self.logits + gpu_constants().context_bytes


def estimate_need(case: Case) -> MemoryNeed:
    """The memory of one GPU; of convolutional networks without known activations only that of the states."""
    workload, training = case.workload, case.training
    states, working = _count_states(case)
    if isinstance(workload, Convolutional):
        kept = (workload.activation_bytes or 0.0) * training.micro_batch * training.number_bytes / 4
        # Segments of √n layers keep their inputs only (Chen et al. 2016, arXiv:1604.06174).
        kept /= 1 if training.recomputation == "none" else 4
        return MemoryNeed(states, working, kept, 0.0)
    return MemoryNeed(
        states,
        working,
        _count_activations(workload, training, case.cluster),
        _count_logits(workload, training),
    )


def count_least(case: Case) -> float:
    """The bytes of one GPU by the leanest software."""
    return estimate_need(case).total


def _count_states(case: Case) -> tuple[float, float]:
    """Weights, gradients and moments, and working copies (Rajbhandari et al. 2020, arXiv:1910.02054)."""
    workload, training, weights, ranks = case.workload, case.training, case.weights, case.replicas
    trained = case.trained_weights
    moments, narrow = 4.0 * _MOMENTS.get(training.optimizer, 2), float(training.number_bytes)
    if training.strategy == "fsdp":
        layers = workload.layers if isinstance(workload, Transformer) else 1
        block = weights / max(layers, 1) * training.pipeline_parallel
        gathered = weights if training.zero_stage == 2 else min(2 * block, weights)
        return (4 * weights + trained * (4 + moments)) / ranks, (gathered * narrow if ranks > 1 else 0.0)
    if training.strategy == "deepspeed":
        stage, master = training.zero_stage, 4.0 if narrow == 2 or training.zero_stage else 0.0
        optimizer = (master + moments) / (ranks if stage >= 1 else 1)
        gradients = narrow / (ranks if stage >= 2 else 1)
        kept = narrow / (ranks if stage == 3 else 1)
        return trained * (optimizer + gradients) + weights * kept, 0.0
    copies = 0.0 if narrow == 4 else narrow * weights
    return 4 * weights + trained * (4 + moments), copies


def _count_activations(workload: Transformer, training: Training, cluster: Cluster) -> float:
    """What layers keep for the backward pass; with full recomputation their inputs, and one layer whole."""
    tokens = training.micro_batch * workload.sequence_length
    layers = workload.layers / training.pipeline_parallel
    token_width = float(tokens * workload.width * training.number_bytes)
    layer = token_width * _KEPT_PER_LAYER / training.tensor_parallel
    if not cluster.gpu.has_fused_attention:
        scores = tokens * workload.sequence_length * workload.heads * training.number_bytes
        layer += _KEPT_SCORES * scores / training.tensor_parallel
    in_flight = min(training.accumulation, training.pipeline_parallel)  # 1F1B: Narayanan et al. 2019
    if training.recomputation == "full":
        return in_flight * layers * token_width + layer
    share = 0.5 if training.recomputation == "selective" else 1.0
    return in_flight * layers * layer * share


def _count_logits(workload: Transformer, training: Training) -> float:
    """Logits in the precision of the arithmetic, and in fp32 for the loss."""
    tokens = training.micro_batch * workload.sequence_length
    return tokens * workload.vocabulary * (training.number_bytes + 4.0) / training.tensor_parallel


def fits(case: Case) -> bool:
    """Whether the least that a GPU needs is no more than it has."""
    return estimate_need(case).total <= case.cluster.gpu.memory_bytes


def describe_shortage(case: Case) -> str:
    """What a micro-batch needs of a GPU, beside what the GPU has."""
    need, gpu = estimate_need(case), case.cluster.gpu
    return (
        f"micro-batches of {case.training.micro_batch} need at least {format_memory(int(need.total))}"
        f" of a GPU (states {format_memory(int(need.states + need.working))},"
        f" activations {format_memory(int(need.activations + need.logits))}),"
        f" but {gpu.name} has {format_memory(int(gpu.memory_bytes))}"
    )


def find_fitting(case: Case) -> list[tuple[str, Case]]:
    """The fewest changes of the training after which it fits, each with the text that makes it."""
    training = case.training
    powers = [2**power for power in reversed(range((training.micro_batch - 1).bit_length()))]
    kinds: list[list[Change]] = [[(f"`micro_batch: {size}`", {"micro_batch": size}) for size in powers]]
    if training.recomputation != "full" and isinstance(case.workload, Transformer):
        kinds.append([("`activation_checkpointing: true`", {"recomputation": "full"})])
    if case.replicas > 1 and training.strategy != "fsdp":
        kinds.append([("`strategy: fsdp`", {"strategy": "fsdp", "zero_stage": 3})])
    if case.replicas > 1 and training.strategy == "fsdp" and training.zero_stage == 2:
        kinds.append([("`zero_stage: 3`", {"zero_stage": 3})])

    def fit(fields: Mapping[str, Any]) -> Case | None:
        changed = replace(case, training=replace(training, **fields))
        return changed if fits(changed) else None

    return find_fewest_changes(kinds, fit)
