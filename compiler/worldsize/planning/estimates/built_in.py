"""The built-in models as workloads, from the shapes of their weights."""

from __future__ import annotations

from msgspec.structs import replace

from worldsize.planning.estimates.model import Case, Precision, Strategy, Training
from worldsize.planning.memory.estimate import estimate
from worldsize.planning.memory.network import Network, Part, Setup
from worldsize.spec.workload import Convolutional, Transformer, Workload

# The trainers' words in those of the step-time model. With tensor and pipeline parallelism, replicas
# exchange gradients as with DDP, which is also what any other word means.
_STRATEGIES: dict[str, Strategy] = {"fsdp": "fsdp", "deepspeed": "deepspeed", "horovod": "horovod"}
_PRECISIONS: dict[str, Precision] = {"fp16": "fp16", "bf16": "bf16"}


def describe_network(network: Network, heads: int | None) -> Workload:
    """A network as a workload; ``heads`` are those of a ``gpt``."""
    heads = network.heads or (heads if network.name == "gpt" else None)
    if heads:
        embedding = next(part.weights[0] for part in network.parts if part.name == "tokens")
        vocabulary, width = embedding.shape
        weights = [weight for part in network.parts for weight in part.weights]
        return Transformer(
            parameters=float(network.count if network.heads else network.trained),
            layers=sum(part.block for part in network.parts),
            width=width,
            heads=heads,
            vocabulary=vocabulary,
            sequence_length=network.sample // 8,  # numbers of tokens take 8 bytes
            tied_embeddings=bool(network.heads) and not any(w.name == "lm_head.weight" for w in weights),
            trained_parameters=float(network.trained) if network.trained < network.count else None,
        )
    kept = sum(part.kept.wide + part.kept.narrow + part.kept.normed for part in network.parts)
    return Convolutional(
        parameters=float(network.trained),
        forward_flops=max(1.0, sum(_count_flops(part) for part in network.parts)),
        activation_bytes=4.0 * kept,
    )


def _count_flops(part: Part) -> float:
    """FLOPs of a part's forward pass: two for each weight and place where it is applied."""
    total = 0.0
    for weight in part.weights:
        if len(weight.shape) == 4:  # a convolution: outputs, inputs, height, width of the kernel
            outputs, inputs = weight.shape[:2]
            area = (part.kept.narrow - part.inputs) / outputs if part.block else part.kept.narrow / inputs
            total += 2.0 * weight.count * area
        elif len(weight.shape) == 2:
            total += 2.0 * weight.count
    return total


def read_strategy(strategy: str) -> Strategy:
    """The strategy of the step-time model for that of a trainer."""
    return _STRATEGIES.get(strategy, "ddp")


def read_precision(precision: str) -> Precision:
    """The precision of the step-time model for that of a trainer."""
    return _PRECISIONS.get(precision, "fp32")


def find_fsdp_stage(reshard: str) -> int:
    """The ZeRO stage of FSDP: weights that are not sharded again after the forward pass are stage 2's."""
    return 2 if reshard == "never" else 3


def describe_setup(setup: Setup) -> Training:
    """How a built-in trainer trains: ``setup`` with the words of the step-time model."""
    sharded = {"fsdp": find_fsdp_stage(setup.reshard), "deepspeed": setup.stage}
    return Training(
        micro_batch=setup.micro_batch,
        accumulation=setup.accumulation,
        precision=read_precision(setup.precision),
        strategy=read_strategy(setup.strategy),
        zero_stage=sharded.get(setup.strategy, 0),
        recomputation="full" if setup.checkpointing else "none",
        optimizer=setup.optimizer,
        tensor_parallel=setup.tensor,
        pipeline_parallel=setup.pipeline,
    )


def count_memory(network: Network, setup: Setup, case: Case) -> float:
    """The bytes of the GPU that needs most, of a network that is trained as a case says.

    ``setup`` has what a layout leaves as it is. A network that cannot be divided so has no bound.
    """
    training = case.training
    divided = "pipeline_parallel" if training.pipeline_parallel > 1 else "tensor_parallel"
    whole = training.tensor_parallel * training.pipeline_parallel == 1
    breakdown = estimate(
        network,
        replace(
            setup,
            strategy=training.strategy if whole else divided,
            data=case.replicas,
            tensor=training.tensor_parallel,
            pipeline=training.pipeline_parallel,
            micro_batch=training.micro_batch,
            accumulation=training.accumulation,
            precision=training.precision,
            checkpointing=training.recomputation == "full",
            gpu=True,
            stage=training.zero_stage,
            reshard="never" if training.zero_stage == 2 else "auto",
        ),
    )
    return float("inf") if breakdown is None else breakdown.total
