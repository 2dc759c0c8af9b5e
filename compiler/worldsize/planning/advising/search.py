"""Searches every cluster for its fastest layout, and prices it on every tier."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from worldsize.facts import cuda, vm_sizes
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.advising import layouts
from worldsize.planning.advising.model import Advice, Found, Limits, Option, OtherBatch, Question, Rate
from worldsize.planning.advising.options import find_front, price_option, rank_by_money, select_within
from worldsize.planning.estimates.clusters import describe_cluster, find_gpu
from worldsize.planning.estimates.constants import fitted
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.model import Cluster
from worldsize.planning.rates import batch_growth, scale_learning_rate
from wstrain.scaling import default_warmup_epochs


def advise(question: Question, limits: Limits, present: Option | None = None) -> Advice:
    """The front of time and money within the limits, its cheapest option and what to compare it with."""
    found = search(question)
    within = select_within(found.options, limits)
    front = find_front(within)
    cheapest = front[-1] if front else None
    return Advice(
        found=found,
        front=tuple(front),
        cheapest=cheapest,
        chosen=_choose(front, limits),
        runner_up=None if cheapest is None else _find_runner_up(cheapest, within),
        present=present,
    )


def _choose(front: list[Option], limits: Limits) -> Option | None:
    if not front or limits == Limits():
        return None
    return front[0] if limits.seconds is None else front[-1]


def search(question: Question) -> Found:
    """The fastest layout on every cluster, with its time and money on every tier."""
    tally, constants = layouts.Tally(), fitted()
    options: list[Option] = []
    precise = False
    choice = question.choice
    for cluster in list_clusters(choice.sizes, choice.max_instances, question.input_samples_per_s):
        if layouts.fit_precision(question, cluster).precision not in cluster.gpu.peak_flops:
            continue
        precise = True
        layout = layouts.find_fastest(question, cluster, constants, tally)
        if layout is None:
            continue
        answer = estimate(question.workload, layout.training, cluster, question.calibration, constants)
        if answer is None:
            continue
        priced = (price_option(question, cluster, layout.training, tier, answer) for tier in choice.tiers)
        options += [option for option in priced if option is not None]
    return Found(
        options=tuple(option for option in options if option.amount is not None),
        considered=tally.considered,
        timed=tally.timed,
        precise=precise,
        unpriced=tuple(option for option in options if option.amount is None),
        shortage=None if options else tally.least,
    )


def try_other_batches(question: Question, rate: Rate | None, limits: Limits) -> list[OtherBatch]:
    """What larger global batches would mean: the learning rate and warm-up by its rule, time and money."""
    return [_try_batch(question, rate, limits, factor) for factor in (2, 4)]


def _try_batch(question: Question, rate: Rate | None, limits: Limits, factor: int) -> OtherBatch:
    global_batch = question.global_batch * factor
    within = select_within(search(replace(question, global_batch=global_batch)).options, limits)
    learning_rate = warmup = None
    if rate is not None:
        kappa = batch_growth(global_batch, rate.reference_batch)
        learning_rate = scale_learning_rate(rate.rule, kappa, rate.reference_learning_rate)
        warmup = default_warmup_epochs(rate.rule, kappa, rate.epochs)
    option = min(within, key=rank_by_money, default=None)
    return OtherBatch(factor, global_batch, learning_rate, warmup, option)


def _find_runner_up(cheapest: Option, options: list[Option]) -> Option | None:
    """The cheapest option on another VM size, else with another number of instances."""
    others = [option for option in options if option.instance_type != cheapest.instance_type]
    if not others:
        count = cheapest.cluster.instance_count
        others = [option for option in options if option.cluster.instance_count != count]
    return min(others, key=rank_by_money, default=None)


def list_sizes() -> list[VmSize]:
    """Sizes on sale that run what runs on NVIDIA GPUs beside x86-64 processors, as most images do."""
    return [size for size in list_known_sizes() if _runs_common_images(size)]


def list_known_sizes() -> list[VmSize]:
    """Sizes with whole GPUs that Azure sells to anyone and whose GPUs the step-time model knows."""
    sizes = (vm_sizes.lookup(name) for name in vm_sizes.names())
    return [size for size in sizes if size is not None and is_usable(size)]


def is_usable(size: VmSize) -> bool:
    """Whether Azure sells a size to anyone, and the step-time model knows its GPUs, which are whole."""
    return size.status == "current" and not size.is_growth_restricted and find_gpu(size) is not None


def _runs_common_images(size: VmSize) -> bool:
    gpu = cuda.find_gpu(size.gpu_model)
    return gpu is not None and gpu.vendor == "NVIDIA" and gpu.processor == "x86-64"


def list_counts(most: int) -> list[int]:
    """Numbers of instances to try: 1, 2, 3, 4, 6, 8, 12, 16 … up to ``most``, and ``most`` itself."""
    counts, power = {most}, 1
    while power <= most:
        counts |= {power, min(power * 3 // 2, most)}
        power *= 2
    return sorted(counts)


def make_cluster(size: VmSize, count: int, input_samples_per_s: float | None = None) -> Cluster | None:
    """The cluster of ``count`` instances of a size; None if its GPU is unknown."""
    gpu = find_gpu(size)
    if gpu is None:
        return None
    return describe_cluster(
        gpu,
        size,
        gpus_per_instance=size.devices,
        instance_count=count,
        input_samples_per_s=input_samples_per_s,
    )


def list_clusters(
    sizes: Iterable[VmSize], most: int, input_samples_per_s: float | None = None
) -> list[Cluster]:
    """The clusters of every size and number of instances."""
    counts = list_counts(most)
    made = (make_cluster(size, count, input_samples_per_s) for size in sizes for count in counts)
    return [cluster for cluster in made if cluster is not None]
