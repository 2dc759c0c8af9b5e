"""The fastest layout of a training on one cluster, with its global batch kept exactly.

A layout is a strategy, tensor and pipeline degrees, recomputation, and the division of a replica's share of
the global batch into micro-batches. On one cluster the fastest layout is also the cheapest, so that only it
matters. Three bounds keep the search short:

- Memory grows with the micro-batch, so that the largest that fits is found by bisection.
- Without a pipeline a larger micro-batch is never slower: it needs fewer passes, and its products are larger.
- No layout is faster than its operations alone, all samples in one pass and nothing exchanged, and a
  pipeline idles for its share of passes besides.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from worldsize.planning.advising.model import LayoutChoice, Question, Sharding, Shortage
from worldsize.planning.degrees import divisors
from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.model import Case, Cluster, Recomputation, Training
from worldsize.planning.estimates.operations import count_operations, time_compute
from worldsize.planning.estimates.step_time import find_links, time_step
from worldsize.planning.memory.network import gpu_constants
from worldsize.spec.workload import Convolutional, Transformer

NOTICEABLE = 0.01  # of a step's time; estimates are not sure of less
MOST_STAGES = 16
_divisors = lru_cache(maxsize=1024)(divisors)


class Tally(Struct):
    """What the search has looked at."""

    considered: int = 0  # layouts, those that a bound or the memory excludes among them
    timed: int = 0
    least: Shortage | None = None  # of layouts that do not fit


class Layout(Struct, frozen=True):
    """A training as one cluster would run it, and the seconds of its step."""

    training: Training
    seconds: float


def find_fastest(question: Question, cluster: Cluster, constants: Constants, tally: Tally) -> Layout | None:
    """The fastest layout that fits, as far as estimates tell.

    The simplest comes first: no recomputation, small degrees, the first strategy; another one must be
    faster by more than :data:`NOTICEABLE`. None if none fits, none keeps the global batch, or a link is
    unknown.
    """
    best: Layout | None = None
    if find_links(cluster, constants) is None:
        return None
    for recomputation in _list_recomputations(question):
        floor = _bound_step(question, recomputation, cluster, constants)
        for training in list_divisions(question, recomputation, cluster):
            batches = _divide_share(question, training, cluster)
            tally.considered += len(batches)
            slowest = math.inf if best is None else best.seconds * (1 - NOTICEABLE)
            faster = _select_faster(training, batches, floor, slowest)
            for fitting in _select_fitting(question, training, cluster, faster, tally):
                layout = _time_layout(question, fitting, cluster, constants)
                tally.timed += 1
                if layout is not None and layout.seconds < slowest:
                    best, slowest = layout, layout.seconds * (1 - NOTICEABLE)
    return best


def fit_precision(question: Question, cluster: Cluster) -> Training:
    """The present training, in the precision that it has on a cluster's GPUs."""
    if not question.choice.layouts.automatic_precision:
        return question.training
    return replace(question.training, precision=cluster.gpu.automatic_precision)


def has_room(question: Question, case: Case) -> bool:
    """Whether a training needs no more than the part of a GPU's memory that it should fill."""
    return question.count_memory(case) <= case.cluster.gpu.memory_bytes * gpu_constants().room_share


def _list_recomputations(question: Question) -> list[Recomputation]:
    whole = isinstance(question.workload, Convolutional)
    return [kind for kind in question.choice.layouts.recomputes if not (whole and kind == "selective")]


def list_divisions(question: Question, recomputation: Recomputation, cluster: Cluster) -> Iterator[Training]:
    """Trainings with every strategy and degree that divide the GPUs and the global batch."""
    world = cluster.world_size
    for ways, tensor, pipeline in _list_degrees(question, cluster):
        if world % ways or question.global_batch % (world // ways):
            continue
        for strategy, stage in _list_shardings(question.choice.layouts, world // ways, tensor, pipeline):
            yield replace(
                fit_precision(question, cluster),
                strategy=strategy,
                zero_stage=stage,
                recomputation=recomputation,
                tensor_parallel=tensor,
                pipeline_parallel=pipeline,
            )


def _list_shardings(choice: LayoutChoice, replicas: int, tensor: int, pipeline: int) -> tuple[Sharding, ...]:
    """One replica has nothing to shard: all strategies are alike.

    DeepSpeed's pipelines keep gradients and weights whole: ZeRO stage 1 at most.
    """
    if replicas == 1 or (tensor * pipeline > 1 and not choice.combines_sharding):
        return choice.shardings[:1]
    if pipeline == 1:
        return choice.shardings
    return tuple(pair for pair in choice.shardings if pair[0] != "deepspeed" or pair[1] <= 1)


def _list_degrees(question: Question, cluster: Cluster) -> list[tuple[int, int, int]]:
    """Products of tensor and pipeline degrees with both, the smallest first.

    The ranks that share a layer are on one instance. Degrees divide heads and layers.
    """
    workload, only = question.workload, question.choice.layouts.degrees
    if only is not None:
        return [(only[0] * only[1], *only)]
    if not (isinstance(workload, Transformer) and question.choice.layouts.divides_layers):
        return [(1, 1, 1)]
    tensors = divisors(math.gcd(cluster.gpus_per_instance, workload.heads))
    stages = [stage for stage in divisors(workload.layers) if stage <= MOST_STAGES]
    return sorted((tensor * stage, tensor, stage) for tensor in tensors for stage in stages)


def _divide_share(question: Question, training: Training, cluster: Cluster) -> list[int]:
    """The micro-batches that divide a replica's samples of one optimizer step, ascending."""
    ways = training.tensor_parallel * training.pipeline_parallel
    return _divisors(question.global_batch * ways // cluster.world_size)


def _select_faster(training: Training, batches: list[int], floor: float, seconds: float) -> list[Training]:
    """Micro-batches, ascending, with which a step may take less than ``seconds``."""
    share, waits = batches[-1], training.pipeline_parallel - 1
    return [
        replace(training, micro_batch=batch, accumulation=share // batch)
        for batch in batches
        if floor * (1 + waits * batch / share) < seconds
    ]


def _select_fitting(
    question: Question, training: Training, cluster: Cluster, faster: list[Training], tally: Tally
) -> list[Training]:
    """Those that fit and may be fastest: the largest micro-batch, or in a pipeline each."""
    largest = _largest_known(question)

    def is_too_large(one: Training) -> bool:
        return one.micro_batch > largest or not has_room(question, Case(question.workload, one, cluster))

    fitting = faster[: bisect_right(faster, False, key=is_too_large)]
    if faster and not fitting:
        _note_need(question, Case(question.workload, faster[0], cluster), tally)
    return fitting if training.pipeline_parallel > 1 else fitting[-1:]


def _time_layout(
    question: Question, training: Training, cluster: Cluster, constants: Constants
) -> Layout | None:
    parts = time_step(Case(question.workload, training, cluster), constants, question.calibration)
    return None if parts is None else Layout(training, parts.seconds)


def _largest_known(question: Question) -> float:
    """The largest micro-batch whose memory is known: the present one if activations are unknown."""
    workload = question.workload
    unknown = isinstance(workload, Convolutional) and workload.activation_bytes is None
    return question.training.micro_batch if unknown else math.inf


def _note_need(question: Question, case: Case, tally: Tally) -> None:
    needed = question.count_memory(case)
    if tally.least is None or needed < tally.least.needed_bytes:
        tally.least = Shortage(needed, case.training, case.cluster)


def _bound_step(
    question: Question, recomputation: Recomputation, cluster: Cluster, constants: Constants
) -> float:
    """Seconds below which no step is: its operations alone, all samples in one pass."""
    training = replace(
        fit_precision(question, cluster),
        micro_batch=question.global_batch,
        accumulation=1,
        recomputation=recomputation,
        tensor_parallel=1,
        pipeline_parallel=1,
    )
    operations = count_operations(question.workload, training, cluster, constants)
    seconds = time_compute(operations, training, cluster, constants)
    return (seconds.arithmetic + seconds.memory) * question.calibration.compute / cluster.world_size
