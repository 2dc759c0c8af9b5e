"""Advice for people: the front as a table, why the cheapest is cheapest, what other batches would mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from worldsize.api.advice import AdvisedStep
from worldsize.base.wording import plural, quoted_list, show_digits, show_number
from worldsize.cli import common
from worldsize.cli.common import format_table, show_interval, show_seconds, show_share
from worldsize.cli.pictures import Picture
from worldsize.planning.advising.model import Advice, Limits, Option, OtherBatch
from worldsize.planning.advising.options import Comparison, compare
from worldsize.planning.estimates.model import Interval, Training

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_HEADINGS = ("", "instances", "tier", "layout", "time", "cost", "efficiency", "bound by")
_TIERS = {"dedicated": "dedicated", "low_priority": "low priority"}
_TIMES = ((120.0, 1.0, "s"), (5400.0, 60.0, "min"), (259_200.0, 3600.0, "h"), (math.inf, 86400.0, "d"))
_CENT = 0.01
_VISIBLE = 0.005
_CALIBRATED = "calibrated by"  # a basis says so; the published speeds need not be named again
_BESIDE = {"runner_up": "the runner-up", "present": "the present configuration"}


def render_advice(step: AdvisedStep) -> str:
    """The block of one training."""
    subject, samples, advice, others = step
    length = f"{show_number(samples)} samples in global batches of {subject.case.global_batch}"
    lines = [
        f"{subject.name}  {length}; {advice.found.considered:,} layouts considered",
        "",
        *_list_options(advice),
        "",
        *_explain_cheapest(advice),
        *(_describe_batch(batch) for batch in others),
    ]
    lines += _list_unpriced(advice)
    prices = [option.price for option in advice.front if option.price is not None]
    if prices:
        days = sorted({price.as_of.isoformat() for price in prices})
        lines.append(f"prices: {prices[0].region}, {' to '.join(dict.fromkeys([days[0], days[-1]]))}")
    return "\n".join(lines)


def _list_unpriced(advice: Advice) -> Iterator[str]:
    """The sizes that are left out, by tier."""
    for tier, shown in _TIERS.items():
        names = sorted({option.instance_type for option in advice.found.unpriced if option.tier == tier})
        if names:
            yield f"left out, because the price is unknown, {shown}: {quoted_list(names, 6)}"


def _list_options(advice: Advice) -> Iterator[str]:
    """The front, the fastest first, and what the user has now."""
    rows = [_row(_mark(option, advice), option) for option in advice.front]
    if advice.present is not None and advice.present not in advice.front:
        rows.append(_row("present", advice.present))
    return format_table(_HEADINGS, rows, right=frozenset({6}))


def _mark(option: Option, advice: Advice) -> str:
    if option == advice.chosen:
        return "chosen"
    if option == advice.present:
        return "present"
    return "cheapest" if option == advice.cheapest else "fastest" if option == advice.front[0] else ""


def _row(mark: str, option: Option) -> tuple[str, ...]:
    efficiency = option.estimate.scaling_efficiency
    return (
        mark,
        show_instances(option),
        _TIERS[option.tier],
        describe_layout(option.training),
        show_hours(option.seconds),
        show_cost(option),
        "" if efficiency is None else show_share(efficiency),
        option.estimate.bound,
    )


def show_instances(option: Option) -> str:
    """``2 × Standard_ND96asr_v4``."""
    return f"{option.cluster.instance_count} × {option.instance_type}"


def summarise(option: Option) -> str:
    """``2 × Standard_ND96asr_v4, low priority: 12.1 h (10.5 to 13.9), 310 USD (280 to 350)``."""
    where = f"{show_instances(option)}, {_TIERS[option.tier]}"
    return f"{where}: {show_hours(option.seconds)}, {show_cost(option)}"


def describe_layout(training: Training) -> str:
    """``fsdp 3, tensor 2, 4 × 2 samples, full recomputation``: micro-batch × accumulation."""
    stage = f" {training.zero_stage}" if training.zero_stage else ""
    parts = [f"{training.strategy}{stage}"]
    if training.tensor_parallel > 1:
        parts.append(f"tensor {training.tensor_parallel}")
    if training.pipeline_parallel > 1:
        parts.append(f"pipeline {training.pipeline_parallel}")
    parts.append(f"{training.micro_batch} × {training.accumulation} samples")
    if training.recomputation != "none":
        parts.append(f"{training.recomputation} recomputation")
    return ", ".join(parts)


def show_hours(seconds: Interval) -> str:
    """``12.1 h (10.5 to 13.9)``, in seconds, minutes, hours or days."""
    return show_seconds(seconds, _TIMES)


def show_cost(option: Option) -> str:
    """``310 USD (280 to 350)``."""
    if option.amount is None or option.price is None:
        return "unknown"
    if option.amount.expected < _CENT:
        return f"below {_CENT} {option.price.currency}"
    return show_interval(option.amount, option.price.currency)


def _explain_cheapest(advice: Advice) -> Iterator[str]:
    """Why the cheapest costs less than others, in factors that multiply to the whole."""
    cheapest = advice.cheapest
    if cheapest is None:
        return
    yield f"cheapest: {show_instances(cheapest)}, {_TIERS[cheapest.tier]}"
    if _CALIBRATED in cheapest.estimate.basis:
        yield f"  its time rests on: {cheapest.estimate.basis}"
    if cheapest.expected_loss:
        yield f"  evictions and checkpoints take {show_share(cheapest.expected_loss)} of its time"
    for name, comparison in compare_cheapest(advice).items():
        yield from _explain(_BESIDE[name], cheapest, comparison)


def _explain(name: str, cheapest: Option, comparison: Comparison) -> Iterator[str]:
    other = comparison.other
    used, theirs = cheapest.estimate.model_flops_utilisation, other.estimate.model_flops_utilisation
    mine, others = cheapest.estimate.bound, other.estimate.bound
    bounds = f"both bound by {mine}" if mine == others else f"bound by {mine} and {others}"
    yield (
        f"  {name}, {show_instances(other)}, {_TIERS[other.tier]},"
        f" costs {_times(comparison.cost)}as much and takes {_times(comparison.seconds)}as long;"
        " the cheapest has"
    )
    yield f"    {_times(comparison.peak_per_money, 'the same ')}peak arithmetic for the money"
    yield (
        f"    {_times(comparison.utilisation, 'the same ')}share of it in use:"
        f" {show_share(used or 0)} against {show_share(theirs or 0)}, {bounds}"
    )
    if abs(comparison.kept_time - 1) >= _VISIBLE:
        yield f"    {comparison.kept_time:.3g} times the share of time that evictions leave"


def _times(factor: float, same: str = "") -> str:
    """``2.5 times the ``, or what is said instead of ``1 times``; without ``same`` there is no article."""
    shown = f"{factor:.3g}"
    return same if shown == "1" else f"{shown} times {'the ' if same else ''}"


def _describe_batch(batch: OtherBatch) -> str:
    """What another global batch would mean."""
    text = f"a global batch of {batch.global_batch} (× {batch.factor}, not applied): "
    if batch.learning_rate is None:
        text += f"the learning rate × {batch.factor} for SGD or × √{batch.factor} for Adam"
    else:
        text += f"learning rate {show_number(batch.learning_rate)}"
        text += f", warm-up {plural(batch.warmup_epochs or 0, 'epoch')}"
    if batch.option is None:
        return f"{text}; no option within the limits"
    option = batch.option
    return f"{text}; from {show_cost(option)} in {show_hours(option.seconds)} on {show_instances(option)}"


FORMAT = "worldsize-advice/1"


def describe_advice(step: AdvisedStep) -> dict[str, Any]:
    """The advice for one training."""
    subject, samples, advice, others = step
    return {
        "name": subject.name,
        "global_batch_size": subject.case.global_batch,
        "samples": samples,
        **common.describe(advice.found, "considered", "timed"),
        "front": [describe_option(option) for option in advice.front],
        "cheapest": _describe(advice.cheapest),
        "chosen": _describe(advice.chosen),
        "present": _describe(advice.present),
        "comparisons": {
            name: _describe_comparison(comparison) for name, comparison in compare_cheapest(advice).items()
        },
        "other_batches": [_describe_other(batch) for batch in others],
        "unpriced": sorted({option.instance_type for option in advice.found.unpriced}),
    }


def describe_option(option: Option) -> dict[str, Any]:
    """One cluster with its layout, time and money; None where a quantity is unknown."""
    training, estimate = option.training, option.estimate
    return {
        "instance_type": option.instance_type,
        "instance_count": option.cluster.instance_count,
        "tier": option.tier,
        **common.describe(training, "strategy", "zero_stage", "tensor_parallel", "pipeline_parallel"),
        **common.describe(training, "micro_batch", "accumulation", "recomputation"),
        "seconds": to_builtins(option.seconds),
        "cost": to_builtins(option.amount),
        **common.describe(option, "price", "expected_loss"),
        **common.describe(estimate, "samples_per_second", "model_flops_utilisation", "scaling_efficiency"),
        **common.describe(estimate, "bound", "basis"),
        "memory_bytes": round(option.memory_bytes),
    }


def compare_cheapest(advice: Advice) -> dict[str, Comparison]:
    """The cheapest option beside the runner-up and what the user has now."""
    beside = {"runner_up": advice.runner_up, "present": advice.present}
    compared = {
        name: compare(advice.cheapest, other)
        for name, other in beside.items()
        if advice.cheapest is not None and other is not None and other != advice.cheapest
    }
    return {name: comparison for name, comparison in compared.items() if comparison is not None}


def _describe(option: Option | None) -> dict[str, Any] | None:
    return None if option is None else describe_option(option)


def _describe_comparison(comparison: Comparison) -> dict[str, Any]:
    factors = common.describe(comparison, "cost", "seconds", "peak_per_money", "utilisation", "kept_time")
    return {"other": describe_option(comparison.other), **factors}


def _describe_other(batch: OtherBatch) -> dict[str, Any]:
    return {
        "global_batch_size": batch.global_batch,
        **common.describe(batch, "factor", "learning_rate", "warmup_epochs"),
        "cheapest": _describe(batch.option),
    }


_WIDTH, _LEAST, _HEAD, _LINE = 9.0, 4.0, 1.0, 0.2  # inches: of all, of a row at least, of a line of its key
_KEY = 0.42  # of the width
_MARKS = {"dedicated": "o", "low_priority": "v"}
_UNITS = ((1.0, "seconds"), (60.0, "minutes"), (3600.0, "hours"), (86_400.0, "days"))
_BEYOND, _MARGIN = 5.0, 1.6  # times what must be seen, that the axes reach
_LEVELS, _NEAR = 3, 0.05  # numbers below each other, of points within a share of the axes
_FRONT, _LIGHT, _PRESENT = "tab:blue", "0.7", "tab:red"


def make_picture(steps: Sequence[AdvisedStep], limits: Limits) -> Picture:
    """Time against cost, a row for each training."""
    heights = [max(_LEAST, _HEAD + _LINE * (len(step.advice.front) + 8)) for step in steps]
    title = ", ".join(step.subject.name for step in steps)
    draw = partial(_draw_rows, steps, limits, heights)
    return Picture(f"{title}: time against cost", (_WIDTH, sum(heights)), draw)


def _draw_rows(
    steps: Sequence[AdvisedStep], limits: Limits, heights: Sequence[float], figure: Figure
) -> None:
    rows = figure.subplots(len(steps), 2, squeeze=False, height_ratios=heights, width_ratios=(1 - _KEY, _KEY))
    for step, (left, right) in zip(steps, rows, strict=True):
        advice = step.advice
        fastest = advice.front[0].seconds.expected
        # The largest unit of which the fastest option needs at least one.
        unit = next((unit for unit in reversed(_UNITS) if fastest >= unit[0]), _UNITS[0])
        _draw_options(left, advice, unit)
        _frame(left, advice, limits, unit[0])
        _number_front(left, advice.front, unit[0])
        _draw_limits(left, limits, unit)
        _draw_key(right, left, advice)
        left.set_title(f"{step.subject.name}: time against cost", loc="left")


def _draw_options(axes: Axes, advice: Advice, unit: tuple[float, str]) -> None:
    divisor, name = unit
    for tier, mark in _MARKS.items():
        others = [
            option for option in advice.found.options if option.tier == tier and option not in advice.front
        ]
        if others:
            label = f"another candidate, {_TIERS[tier]}"
            _scatter(axes, others, divisor, marker=mark, color=_LIGHT, s=9, label=label, linewidth=0)
        chosen = [option for option in advice.front if option.tier == tier]
        if chosen:
            label = f"no other is faster and cheaper, {_TIERS[tier]}"
            _scatter(axes, chosen, divisor, marker=mark, color=_FRONT, s=28, label=label, zorder=3)
    for option in advice.front:
        _draw_bounds(axes, option, divisor)
    if advice.present is not None and advice.present.amount is not None:
        _scatter(axes, [advice.present], divisor, marker="X", color=_PRESENT, s=45, zorder=4, label="present")
    currency = next(option.price.currency for option in advice.front if option.price is not None)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlabel=f"time of the training, {name}", ylabel=f"cost of the training, {currency}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,.8g}")
        axis.set_minor_formatter("")


def _scatter(axes: Axes, options: Sequence[Option], divisor: float, **style: object) -> None:
    points = [
        (option.seconds.expected / divisor, option.amount.expected) for option in options if option.amount
    ]
    axes.scatter(*zip(*points, strict=True), **style)  # type: ignore[arg-type]


def _draw_bounds(axes: Axes, option: Option, divisor: float) -> None:
    """The bounds of time and cost, which go together: the longer it takes, the more it costs."""
    seconds, amount = option.seconds, option.amount
    if amount is None:
        return
    times = [bound / divisor for bound in (seconds.low, seconds.expected, seconds.high)]
    axes.plot(times, [amount.low, amount.expected, amount.high], color=_FRONT, alpha=0.35, linewidth=1.2)


def _frame(axes: Axes, advice: Advice, limits: Limits, divisor: float) -> None:
    """Show the front with its bounds, the present configuration and the limits; say what is far beyond."""
    shown = [*advice.front, *([advice.present] if advice.present is not None else [])]
    times = [bound / divisor for option in shown for bound in (option.seconds.low, option.seconds.high)]
    amounts = [
        bound for option in shown if option.amount for bound in (option.amount.low, option.amount.high)
    ]
    times += [limits.seconds / divisor] if limits.seconds is not None else []
    amounts += [limits.amount] if limits.amount is not None else []
    right, top = _BEYOND * max(times), _BEYOND * max(amounts)
    axes.set_xlim(min(times) / _MARGIN, right)
    axes.set_ylim(min(amounts) / _MARGIN, top)
    far = sum(
        option.seconds.expected / divisor > right
        or (option.amount is not None and option.amount.expected > top)
        for option in advice.found.options
    )
    if far:
        text = f"{plural(far, 'candidate')} beyond the axes"
        place: Any = {"ha": "right", "va": "top", "transform": axes.transAxes, "backgroundcolor": "white"}
        axes.text(0.99, 0.99, text, fontsize=7, color="0.5", **place)


def _number_front(axes: Axes, front: Sequence[Option], divisor: float) -> None:
    """Number the options of the front below and left of them, where no candidate is; near ones in steps."""
    level, last = 0, (-math.inf, -math.inf)
    for number, option in enumerate(front, 1):
        if option.amount is None:
            continue
        point = (option.seconds.expected / divisor, option.amount.expected)
        at = _find_position(axes, point)
        level = (level + 1) % _LEVELS if math.dist(at, last) < _NEAR else 0
        last = at
        offset = (-4 - 2 * level, -4 - 9 * level)
        axes.annotate(
            str(number), point, xytext=offset, textcoords="offset points", ha="right", va="top", fontsize=8
        )


def _find_position(axes: Axes, point: tuple[float, float]) -> tuple[float, float]:
    """About where a point is, as a share of the axes."""
    shares = [
        math.log(value / low) / math.log(high / low)
        for value, (low, high) in zip(point, (axes.get_xlim(), axes.get_ylim()), strict=True)
    ]
    return shares[0], shares[1]


def _draw_limits(axes: Axes, limits: Limits, unit: tuple[float, str]) -> None:
    if limits.seconds is not None:
        label = f"deadline: {show_digits(limits.seconds / unit[0])} {unit[1]}"
        axes.axvline(limits.seconds / unit[0], color="tab:orange", linestyle="--", label=label)
    if limits.amount is not None:
        label = f"budget: {show_digits(limits.amount)}"
        axes.axhline(limits.amount, color="tab:green", linestyle="--", label=label)


def _draw_key(axes: Axes, drawn: Axes, advice: Advice) -> None:
    """What the numbers stand for, and below it what the marks stand for."""
    axes.set_axis_off()
    lines = [f"{number}:  {_name_option(option)}" for number, option in enumerate(advice.front, 1)]
    if advice.present is not None:
        lines.append(f"present:  {_name_option(advice.present)}")
    axes.text(0, 1, "\n".join(lines), va="top", fontsize=8, transform=axes.transAxes, linespacing=1.4)
    handles, labels = drawn.get_legend_handles_labels()
    axes.legend(handles, labels, frameon=False, fontsize=8, loc="lower left", borderaxespad=0)


def _name_option(option: Option) -> str:
    """``4 × ND96asr_v4, low priority``; the tier is said where it is not dedicated."""
    tier = f", {_TIERS[option.tier]}" if option.tier != "dedicated" else ""
    return f"{option.cluster.instance_count} × {option.instance_type.removeprefix('Standard_')}{tier}"
