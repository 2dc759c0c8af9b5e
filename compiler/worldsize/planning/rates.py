"""Plans the learning rate of a training step with its scaling rule, betas and weight decay."""

from __future__ import annotations

import math

from msgspec import Struct

from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import join_words, round_noise, show_number
from worldsize.facts import optimizers
from worldsize.facts.optimizers import Optimizer
from worldsize.planning.model import Rule
from worldsize.planning.options import Settings
from wstrain.scaling import rate_factor

_TOLERANCE = 0.01  # a pinned rate within this share of the rule's counts as the rule's, rounded


class Rate(Struct, frozen=True):
    """The scaled rate and its rule."""

    rule: Rule
    learning_rate: float
    optimizer: str | None


def plan_rate(settings: Settings, kappa: float, global_batch: int) -> Rate | None:
    """Plan the learning rate; None if no rule can be chosen. Problems and advice go to the notes."""
    scale, notes = settings.scale, settings.notes
    name, optimizer = settings.optimizer()
    rule = _rule(settings, name, optimizer, kappa)
    if rule is None:
        return None
    reference = scale.reference_learning_rate.value
    by_rule = scale_learning_rate(rule, kappa, reference)
    pinned = scale.learning_rate
    value = pinned.value if pinned else by_rule
    if pinned and abs(value - by_rule) > _TOLERANCE * by_rule:
        derived = show_number(by_rule)
        message = (
            f"`learning_rate` is {show_number(value)} but the {_how(rule, reference, kappa)} gives {derived}"
        )
        help_ = f"write {derived}, or remove it: it is derived"
        notes.report("learning-rate-disagrees", pinned.span, message, help_)
    if rule == "none" and _adds_steps_up(settings):
        source = "Adasum keeps the rate of one rank, Maleki et al. 2020"
    else:
        source = SOURCES[rule]
    notes.derive("reference_learning_rate", reference, "", notes.given("scale.reference"))
    if pinned is None:
        growth = f"κ = {global_batch} / {scale.reference_batch_size.value} = {show_number(kappa)}"
        pattern = {"linear": "{} × κ, {}", "sqrt": "{} × √κ, {}", "none": "{}, whatever κ"}[rule]
        notes.derive("learning_rate", value, pattern.format(show_number(reference), growth), source)
    else:
        same = "as the rule gives" if value == by_rule else f"the {rule} rule gives {show_number(by_rule)}"
        notes.derive("learning_rate", value, "", f"{notes.given('scale.learning_rate')}, {same}")
    if rule == "sqrt" and kappa != 1 and optimizer is not None:
        _advise_adam(settings, optimizer, kappa)
    if rule != "none" and kappa != 1 and _adds_steps_up(settings):
        notes.advice.append(
            f"rule {rule} with `reduction: adasum`: Adasum combines whole steps of the ranks and wants the"
            " rate of one, Maleki et al. 2020"
        )
    rate = Rate(rule, value, optimizer.name if optimizer else name)
    if kappa != 1:
        _advise(settings, rate, kappa, global_batch)
    return rate


def _rule(settings: Settings, name: str | None, optimizer: Optimizer | None, kappa: float) -> Rule | None:
    said = settings.scale.rule
    if said is not None and said.value != "auto":
        return said.value
    if _adds_steps_up(settings):
        return "none"
    if optimizer is not None:
        return optimizer.rule
    if kappa == 1:
        return "none"
    setting = settings.find("optimizer")
    if name is None or setting is None:
        span = said.span if said else settings.scale.span
        message = f"step `{settings.step.name}` does not name its optimizer, so `rule: auto` cannot choose"
        help_ = "add `optimizer:` under `scale:`, or write one of `rule: linear`, `rule: sqrt`, `rule: none`"
        settings.notes.report("optimizer-unknown", span, message, help_)
        return None
    message = f"no scaling rule is known for optimizer `{name}`"
    near = did_you_mean(name, optimizers.names())
    meant = f"{near} else " if near and near.startswith("did") else ""
    help_ = f"{meant}write one of `rule: linear`, `rule: sqrt`, `rule: none` under `scale:`"
    settings.notes.report("optimizer-unknown", setting.span, message, help_)
    return None


def _adds_steps_up(settings: Settings) -> bool:
    """Whether Adasum adds up the steps of the ranks, so that the rate is not scaled (Maleki et al. 2020)."""
    setting = settings.find("reduction")
    return setting is not None and setting.value == "adasum"


def _how(rule: Rule, reference: float, kappa: float) -> str:
    formulas = {"linear": "κ × {}", "sqrt": "√κ × {}", "none": "{}"}
    return f"{rule} rule, {formulas[rule].format(show_number(reference))} with κ {show_number(kappa)},"


_LABELS = {"beta1": "β1", "beta2": "β2", "epsilon": "ε"}


def _advise_adam(settings: Settings, optimizer: Optimizer, kappa: float) -> None:
    """Suggest the betas and ε for the square-root rule; warn if there are none."""
    present = Adam(*(_number(settings, name, optimizer) for name in ("beta1", "beta2", "epsilon")))
    offered = scale_adam(present, kappa)
    parts = []
    for name, label in _LABELS.items():
        before, after = getattr(present, name), getattr(offered, name)
        if before is not None and after is not None:
            parts.append(f"{label} = {show_number(after)} (now {show_number(before)})")
        elif before is not None:
            _out_of_range(settings, name, before, kappa)
    if parts:
        listed = join_words(parts, "and")
        settings.notes.advice.append(
            f"the square-root rule goes with {listed}: Malladi et al. 2022; offered, not applied"
        )


def _out_of_range(settings: Settings, name: str, beta: float, kappa: float) -> None:
    label = _LABELS[name]
    scale = settings.scale
    setting = settings.find(name)
    scaled = scale.global_batch_size or scale.rule or scale.reference_batch_size
    span = setting.span if setting and not setting.source.startswith("default") else scaled.span
    product = show_number(kappa * (1 - beta))
    message = (
        f"κ is {show_number(kappa)} and {label} is {show_number(beta)}: the square-root rule needs"
        f" κ(1 − {label}) below 1, here it is {product}"
    )
    most = 1 / (1 - beta)
    reference = scale.reference_batch_size.value
    most_samples = show_number(round_noise(most * reference))
    help_ = f"keep κ below {show_number(round_noise(most))}, a global batch under {most_samples}"
    help_ += "; for a larger batch tune the rate again"
    settings.notes.report("sqrt-rule-out-of-range", span, message, help_)


def _advise(settings: Settings, rate: Rate, kappa: float, global_batch: int) -> None:
    rule, largest = rate.rule, GOYAL_LARGEST_BATCH
    _, optimizer = settings.optimizer()
    if rule == "linear" and global_batch > largest:
        settings.notes.advice.append(
            f"global batch {global_batch} is beyond {largest}, the largest for which the linear rule was seen"
            " to cost no accuracy: Goyal et al. 2017"
        )
    if optimizer is not None and rule not in ("none", optimizer.rule):
        settings.notes.advice.append(
            f"rule {rule} with {optimizer.name}: the {optimizer.rule} rule is the one derived for it,"
            f" {optimizer.source}"
        )
    decay = settings.number("weight_decay")
    if optimizer is not None and optimizer.name in ("adamw", "lamb") and decay and decay[0] > 0:
        kept = scale_weight_decay(
            decay[0], kappa, settings.scale.reference_learning_rate.value, rate.learning_rate
        )
        if kept != decay[0]:
            settings.notes.advice.append(
                f"weight decay {show_number(kept)} (now {show_number(decay[0])}) keeps the time over which"
                " weights are averaged: Bergsma et al. 2025; offered, not applied"
            )


def _number(settings: Settings, name: str, optimizer: Optimizer) -> float | None:
    """A beta or ε from the step, else the optimizer's default; None if the optimizer has none."""
    default: float | None = getattr(optimizer, name)
    setting = settings.number(name)
    return default if setting is None or default is None else setting[0]


# The largest batch for which the linear rule was seen to cost no accuracy (ImageNet, ResNet-50).
GOYAL_LARGEST_BATCH = 8192

SOURCES: dict[Rule, str] = {
    "linear": "linear rule, Goyal et al. 2017",
    "sqrt": "square-root rule, Malladi et al. 2022",
    "none": "rule none: the rate stays",
}


def scale_learning_rate(rule: Rule, kappa: float, reference: float) -> float:
    """The learning rate for a global batch ``κ`` times the reference batch.

    ``linear``: ``η′ = κη`` for SGD, with warm-up (Goyal et al. 2017, arXiv:1706.02677).
    ``sqrt``: ``η′ = √κ·η`` for Adam's family (Malladi et al. 2022, arXiv:2205.10287).
    """
    return round_noise(reference * rate_factor(rule, kappa))


class Adam(Struct, frozen=True):
    """The betas and epsilon of an optimizer of Adam's family; None for those that it does not have."""

    beta1: float | None
    beta2: float | None
    epsilon: float | None


def scale_adam(adam: Adam, kappa: float) -> Adam:
    """The betas and epsilon for the square-root rule, which are suggested and not applied.

    ``β₁′ = 1 − κ(1 − β₁)``, ``β₂′ = 1 − κ(1 − β₂)``, ``ε′ = ε/√κ`` (Malladi et al. 2022). A beta for which
    ``κ(1 − β) ≥ 1`` has no counterpart and becomes None.
    """
    return Adam(
        beta1=_scale_beta(adam.beta1, kappa),
        beta2=_scale_beta(adam.beta2, kappa),
        epsilon=None if adam.epsilon is None else round_noise(adam.epsilon / math.sqrt(kappa)),
    )


def _scale_beta(beta: float | None, kappa: float) -> float | None:
    if beta is None or not holds_for_beta(beta, kappa):
        return None
    return round_noise(1 - kappa * (1 - beta))


def holds_for_beta(beta: float, kappa: float) -> bool:
    """Whether the square-root rule holds for a beta: ``κ(1 − β) < 1``, so κ < 10 for β₁ = 0.9."""
    return round_noise(kappa * (1 - beta)) < 1


def scale_weight_decay(decay: float, kappa: float, reference: float, learning_rate: float) -> float:
    """The decoupled weight decay that keeps AdamW's averaging time ``τ = B/(ηλD)``: ``λ′ = λκη/η′``.

    Source: Bergsma et al. 2025, "Power Lines", arXiv:2505.13738.
    """
    return round_noise(decay * kappa * reference / learning_rate)


def batch_growth(global_batch: int, reference_batch: int) -> float:
    """``κ = G / reference batch``, without unit; with 1 nothing is scaled."""
    return round_noise(global_batch / reference_batch)
