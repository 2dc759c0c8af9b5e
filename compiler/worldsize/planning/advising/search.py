"""Searches every cluster for its fastest layout, and prices it on every tier."""

from __future__ import annotations

from msgspec.structs import replace

from worldsize.planning.advising import clusters, layouts
from worldsize.planning.advising.model import Advice, Found, Limits, Option, OtherBatch, Question, Rate
from worldsize.planning.advising.options import find_front, price_option, rank_by_money, select_within
from worldsize.planning.estimates.constants import fitted
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.learning_rate import batch_growth, scale_learning_rate
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
    for cluster in clusters.list_clusters(choice.sizes, choice.max_instances, question.input_samples_per_s):
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


def try_other_batches(
    question: Question, rate: Rate | None, limits: Limits, factors: tuple[int, ...] = (2, 4)
) -> list[OtherBatch]:
    """What larger global batches would mean: the learning rate and warm-up by its rule, time and money."""
    return [_try_batch(question, rate, limits, factor) for factor in factors]


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
