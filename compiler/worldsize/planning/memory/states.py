"""The share of a model that a rank has: bytes of weights, gradients, optimizer states and buffers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from worldsize.planning.memory.network import Network, Part, Setup, Weight
from wstrain.launch import mesh

FUSION_BUFFER = 128 * 2**20  # Horovod's default since 0.21: HOROVOD_FUSION_THRESHOLD, docs/tensor-fusion.rst


class States(Struct, frozen=True):
    """Bytes of a rank. ``buffers`` are working copies and what is packed to be exchanged."""

    parameters: int
    gradients: int
    optimizer: int
    buffers: int = 0


def rank_states(parts: Sequence[Part], setup: Setup) -> States:
    """The states of a rank, whose ``parts`` are its pipeline stage."""
    if setup.strategy == "deepspeed":
        return zero_states(parts, setup)
    if setup.strategy == "fsdp":
        return _fsdp(parts, setup)
    if setup.strategy == "parameter_server":
        return _parameter_server(parts)
    return _replicated(parts, setup)


def _weights(parts: Sequence[Part]) -> list[Weight]:
    return [weight for part in parts for weight in part.weights]


def _count_numbers(parts: Sequence[Part]) -> int:
    return sum(weight.count for weight in _weights(parts))


def _trained(parts: Sequence[Part]) -> int:
    return sum(part.trained for part in parts)


def _replicated(parts: Sequence[Part], setup: Setup) -> States:
    """Every replica has all of its part of the model: ddp, Horovod, tensor and pipeline parallelism.

    Weights, gradients and moments stay fp32 under autocast (Micikevicius et al. 2018): 4 + 4 + 4·moments
    bytes a weight. A model that is divided over ranks is exchanged after the last micro-batch, from a copy of
    its gradients.
    """
    trained = _trained(parts)
    buffers = FUSION_BUFFER if setup.strategy == "horovod" and setup.data > 1 else 0
    if setup.strategy in ("tensor_parallel", "pipeline_parallel") and setup.data > 1:
        buffers += 4 * trained
    return States(4 * _count_numbers(parts), 4 * trained, 4 * setup.moments * trained, buffers)


def _parameter_server(parts: Sequence[Part]) -> States:
    """A worker fetches the variables and sends gradients; moments stay on the servers (Li et al. 2014)."""
    return States(4 * _count_numbers(parts), 4 * _trained(parts), 0)


def _fsdp(parts: Sequence[Part], setup: Setup) -> States:
    """Slices of everything, fp32, and the gathered weights of the blocks that are being computed.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054), P_os+g+p; Zhao et al. 2023 (arXiv:2304.11277). What is
    not trained stays whole where it is the scale of inputs.
    """
    scales = sum(w.count for part in parts if part.name == "scales" for w in part.weights)
    sharded = [part for part in parts if part.name != "scales"]
    weights = _weights(sharded)
    kept = sum(count_slice(weight, setup.data) for weight in weights)
    trained = sum(count_slice(weight, setup.data) for weight in weights if weight.trained)
    if setup.cpu_offload:
        return States(4 * scales, 0, 0)
    return States(4 * (kept + scales), 4 * trained, 4 * setup.moments * trained)


class Held(Struct, frozen=True):
    """Bytes of gradients and buffers at one moment."""

    gradients: int
    buffers: int


Passing = tuple[Held, Held]
"""As the backward pass of a part begins, and as it ends."""


def pass_backward(parts: Sequence[Part], setup: Setup, states: States) -> list[Passing]:
    """What a rank has besides activations while the backward pass goes from the last part to the first."""
    if setup.strategy == "fsdp":
        return _pass_sharded(parts, setup)
    if setup.strategy in ("deepspeed", "parameter_server"):  # gradients have their place from the start
        always = Held(states.gradients, states.buffers)
        return [(always, always)] * len(parts)
    return _pass_replicated(parts, setup, states)


def _pass_replicated(parts: Sequence[Part], setup: Setup, states: States) -> list[Passing]:
    """A gradient takes memory once it is computed, unless it is a view of a bucket of DDP's, or is added to.

    Those of micro-batches that DDP does not exchange are no views: they are copied into the buckets one by
    one, in the first step, before the optimizer has a state, or in every step where weights may get no
    gradient. Autocast copies matrices once a forward pass, and the backward pass needs the copies; those of
    a block that is computed again are made again. Source: ``DistributedDataParallel`` with
    ``gradient_as_bucket_view``, and ``torch.autocast``, whose cache holds the copy of a leaf that requires
    gradients.
    """
    bucketed = setup.strategy == "ddp" and setup.data > 1
    added = setup.accumulation > 1
    fusion = states.buffers if setup.strategy == "horovod" else 0
    later = 0 if setup.unused else states.optimizer
    below = cast = 0
    passed = []
    for part in parts:
        before, below = below, below + 4 * part.trained
        here = cast + _cast_bytes(part, setup, frozen=before > 0)
        begun, ended = (
            Held(
                states.gradients if added or bucketed else states.gradients - left,
                fusion + here + (max(0, left - later) if added and bucketed else 0),
            )
            for left in (below, before)
        )
        passed.append((begun, ended))
        cast = cast if setup.checkpointing and part.block else here
    return passed


def _cast_bytes(part: Part, setup: Setup, *, frozen: bool) -> int:
    """Copies of a part's matrices in half precision; rows that are looked up are not copied.

    Those of ``frozen`` matrices are kept where something before them, or beside them, is trained, whose
    gradients pass them.
    """
    if setup.narrow == 4:
        return 0
    matrices = (
        w
        for w in part.weights
        if len(w.shape) > 1 and (w.trained or frozen or part.trained) and not w.looked_up
    )
    return setup.narrow * sum(weight.count for weight in matrices)


def _pass_sharded(parts: Sequence[Part], setup: Setup) -> list[Passing]:
    """Whole weights of a block and of the one before it, and gradients that are whole until exchanged.

    What surrounds the blocks stays gathered from its first use in the backward pass, and its gradients are
    exchanged at the end. A block's gradients are exchanged from a copy in fp32, which is kept until the next
    block's are. With accumulation they wait whole, in fp32, unless each micro-batch is exchanged. One rank
    copies nothing that is fp32. Source: ``torch.distributed.fsdp.fully_shard``.
    """
    copied = setup.data > 1 or setup.narrow == 2
    waits = setup.accumulation > 1 and not setup.reduce_always
    whole = [_whole_bytes(part, setup) if copied else 0 for part in parts]
    around = sum(size for size, part in zip(whole, parts, strict=True) if not part.block)
    passed: list[Passing] = []
    sliced = unreduced = packed = 0
    for number, part in reversed(list(enumerate(parts))):
        early = next((n for n in range(number - 1, -1, -1) if parts[n].block), None)
        gathered = around + sum(whole[n] for n in {number, early} if n is not None and parts[n].block)
        if setup.reshard == "never":
            gathered = sum(whole)
        waiting = 4 * _trained(parts[: number + 1]) if waits else 0
        begun = Held(sliced, gathered + waiting + unreduced + packed)
        fresh = setup.narrow * part.trained if copied and not waits else 0
        if part.block:
            copy = 4 * part.trained if copied else 0
            ended = Held(sliced, gathered + waiting + unreduced + fresh + max(packed, copy))
            packed = copy
        else:
            unreduced += fresh
            ended = Held(sliced, gathered + waiting + unreduced + packed)
        if (part.block or not copied) and not setup.cpu_offload:
            sliced += 4 * sum(count_slice(w, setup.data) for w in part.weights if w.trained)
        passed.append((begun, ended))
    return passed[::-1]


def _whole_bytes(part: Part, setup: Setup) -> int:
    return 0 if part.name == "scales" else setup.narrow * sum(weight.count for weight in part.weights)


PERSISTENT = 100_000  # DeepSpeed's `stage3_param_persistence_threshold`
SUB_GROUP = 1_000_000_000  # numbers that stage 3 updates at once: DeepSpeed's `sub_group_size`


def zero_states(parts: Sequence[Part], setup: Setup) -> States:
    """Bytes of weights, gradients, optimizer states and buffers.

    With N weights on n ranks, in half precision ZeRO keeps 2N bytes of weights, 2N of gradients, and for the
    optimizer an fp32 master copy beside its moments: 12N for Adam (Rajbhandari et al. 2020,
    arXiv:1910.02054, section 3.1). Stage 1 divides the optimizer states by n, 2 the gradients, 3 the weights.
    In fp32 DeepSpeed keeps the master copy too, from stage 1 on, beside weights of 4 bytes.
    """
    trained, everything = _trained(parts), _count_numbers(parts)
    ranks, narrow, stage = setup.data, setup.narrow, setup.stage
    slice_size = -(-trained // ranks)
    master = 4 if stage or narrow == 2 else 0
    parameters = narrow * (everything if stage < 3 else -(-everything // ranks))
    # Stage 1 exchanges after the last micro-batch and waits for it with whole gradients.
    whole = stage == 0 or (stage == 1 and setup.accumulation > 1)
    gradients = narrow * (trained if whole else slice_size)
    optimizer = (master + 4 * setup.moments) * (slice_size if stage else trained)
    if setup.offload_optimizer:
        optimizer = 0
        gradients = 0 if stage > 1 else gradients
    if setup.offload_parameters:
        parameters = 0
    return States(parameters, gradients, optimizer, _zero_buffers(parts, setup, trained))


def _zero_buffers(parts: Sequence[Part], setup: Setup, trained: int) -> int:
    """A bucket of gradients, and with stage 3 the weights that are whole while a block computes.

    The bucket is made as large as configured, however small the model; a host only provides the memory that
    is written, at most that of the gradients. The step needs the slice's gradients in fp32. Stage 3 never
    cuts tensors of up to :data:`PERSISTENT` numbers (``stage_1_and_2.py``, ``stage3.py`` and
    ``parameter_offload.py`` of DeepSpeed 0.19).
    """
    if setup.stage == 0:
        return 4 * trained if setup.narrow == 2 else 0
    bucket = (setup.bucket if setup.gpu else min(setup.bucket, trained)) * setup.narrow
    sliced = -(-trained // setup.data)
    step = 0 if setup.offload_optimizer else 4 * (sliced if setup.stage < 3 else min(sliced, SUB_GROUP))
    if setup.stage < 3:
        return bucket + step
    largest = sorted((sum(weight.count for weight in part.weights) for part in parts), reverse=True)[:2]
    return bucket + step + setup.narrow * sum(largest) + persistent_bytes(parts, setup)


def persistent_bytes(parts: Sequence[Part], setup: Setup) -> int:
    """Bytes of small tensors that stage 3 keeps whole on every rank, beside their slices."""
    small = (weight.count for part in parts for weight in part.weights if weight.count <= PERSISTENT)
    return setup.narrow * sum(small)


def split_stages(network: Network, count: int) -> list[tuple[Part, ...]]:
    """The parts of each pipeline stage, cut as the trainer cuts them; empty where it cannot be cut.

    What has no weights, such as the loss, goes with the part before it.
    """
    if count == 1:
        return [network.parts]
    groups: list[list[Part]] = []
    for part in network.parts:
        if part.weights or not groups:
            groups.append([part])
        else:
            groups[-1].append(part)
    cut = mesh.partition_blocks([sum(part.trained for part in group) for group in groups], count)
    return [tuple(part for number in numbers for part in groups[number]) for numbers in cut]


def divide_weight(weight: Weight, ranks: int) -> Weight:
    """What a rank has of a weight that tensor parallelism divides over ``ranks`` (Shoeybi et al. 2019)."""
    if weight.dimension is None or ranks == 1:
        return weight
    shape = list(weight.shape)
    shape[weight.dimension] = -(-shape[weight.dimension] // ranks)
    return replace(weight, shape=tuple(shape))


def divide_parts(parts: Sequence[Part], ranks: int) -> tuple[Part, ...]:
    """Parts with this rank's share of every weight."""
    if ranks == 1:
        return tuple(parts)
    return tuple(
        replace(part, weights=tuple(divide_weight(w, ranks) for w in part.weights)) for part in parts
    )


def count_slice(weight: Weight, ranks: int) -> int:
    """Numbers of an FSDP2 slice: whole rows of the first dimension, the first ranks have the most.

    Source: ``torch.distributed.fsdp.fully_shard``, which chunks every parameter in dimension 0 and pads the
    last slices to the size of the first.
    """
    if not weight.shape:
        return 1
    rows = weight.shape[0]
    return -(-rows // ranks) * (weight.count // rows) if rows else 0
