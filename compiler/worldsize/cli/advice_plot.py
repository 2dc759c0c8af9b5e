"""Draws advice: time against cost of all candidates, the front with its intervals, deadline and budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from worldsize.base.wording import plural, show_digits
from worldsize.cli.pictures import Picture
from worldsize.planning.advising.model import Advice, Limits, Option

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _LEAST, _HEAD, _LINE = 9.0, 4.0, 1.0, 0.2  # inches: of all, of a row at least, of a line of its key
_KEY = 0.42  # of the width
_MARKS = {"dedicated": "o", "low_priority": "v"}
_TIERS = {"dedicated": "dedicated", "low_priority": "low priority"}
_UNITS = ((1.0, "seconds"), (60.0, "minutes"), (3600.0, "hours"), (86_400.0, "days"))
_BEYOND, _MARGIN = 5.0, 1.6  # times what must be seen, that the axes reach
_LEVELS, _NEAR = 3, 0.05  # numbers below each other, of points within a share of the axes
_FRONT, _LIGHT, _PRESENT = "tab:blue", "0.7", "tab:red"


class Advised(Struct, frozen=True):
    """The advice for one training, within its limits."""

    name: str
    advice: Advice
    limits: Limits


def make_picture(advised: Sequence[Advised]) -> Picture:
    """Time against cost, a row for each training."""
    heights = [max(_LEAST, _HEAD + _LINE * (len(each.advice.front) + 8)) for each in advised]
    title = ", ".join(each.name for each in advised)
    draw = partial(_draw_rows, advised, heights)
    return Picture(f"{title}: time against cost", (_WIDTH, sum(heights)), draw)


def _draw_rows(advised: Sequence[Advised], heights: Sequence[float], figure: Figure) -> None:
    rows = figure.subplots(
        len(advised), 2, squeeze=False, height_ratios=heights, width_ratios=(1 - _KEY, _KEY)
    )
    for each, (left, right) in zip(advised, rows, strict=True):
        unit = _choose_unit(each.advice.front)
        _draw_options(left, each, unit)
        _draw_limits(left, each.limits, unit)
        _draw_key(right, left, each.advice)
        left.set_title(f"{each.name}: time against cost", loc="left")


def _choose_unit(front: Sequence[Option]) -> tuple[float, str]:
    """The largest unit of which the fastest option needs at least one."""
    fastest = front[0].seconds.expected
    return next((unit for unit in reversed(_UNITS) if fastest >= unit[0]), _UNITS[0])


def _draw_options(axes: Axes, advised: Advised, unit: tuple[float, str]) -> None:
    divisor, name = unit
    advice = advised.advice
    for tier, mark in _MARKS.items():
        others = [each for each in advice.found.options if each.tier == tier and each not in advice.front]
        if others:
            label = f"another candidate, {_TIERS[tier]}"
            _scatter(axes, others, divisor, marker=mark, color=_LIGHT, s=9, label=label, linewidth=0)
        chosen = [each for each in advice.front if each.tier == tier]
        if chosen:
            label = f"no other is faster and cheaper, {_TIERS[tier]}"
            _scatter(axes, chosen, divisor, marker=mark, color=_FRONT, s=28, label=label, zorder=3)
    for option in advice.front:
        _draw_bounds(axes, option, divisor)
    if advice.present is not None and advice.present.amount is not None:
        _scatter(axes, [advice.present], divisor, marker="X", color=_PRESENT, s=45, zorder=4, label="present")
    currency = next(each.price.currency for each in advice.front if each.price is not None)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlabel=f"time of the training, {name}", ylabel=f"cost of the training, {currency}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,.8g}")
        axis.set_minor_formatter("")
    _frame(axes, advised, divisor)
    _number_front(axes, advice.front, divisor)


def _scatter(axes: Axes, options: Sequence[Option], divisor: float, **style: object) -> None:
    points = [(each.seconds.expected / divisor, each.amount.expected) for each in options if each.amount]
    axes.scatter(*zip(*points, strict=True), **style)  # type: ignore[arg-type]


def _draw_bounds(axes: Axes, option: Option, divisor: float) -> None:
    """The bounds of time and cost, which go together: the longer it takes, the more it costs."""
    seconds, amount = option.seconds, option.amount
    if amount is None:
        return
    times = [each / divisor for each in (seconds.low, seconds.expected, seconds.high)]
    axes.plot(times, [amount.low, amount.expected, amount.high], color=_FRONT, alpha=0.35, linewidth=1.2)


def _frame(axes: Axes, advised: Advised, divisor: float) -> None:
    """Show the front with its bounds, the present configuration and the limits; say what is far beyond."""
    advice, limits = advised.advice, advised.limits
    shown = [*advice.front, *([advice.present] if advice.present is not None else [])]
    times = [bound / divisor for each in shown for bound in (each.seconds.low, each.seconds.high)]
    amounts = [bound for each in shown if each.amount for bound in (each.amount.low, each.amount.high)]
    times += [limits.seconds / divisor] if limits.seconds is not None else []
    amounts += [limits.amount] if limits.amount is not None else []
    right, top = _BEYOND * max(times), _BEYOND * max(amounts)
    axes.set_xlim(min(times) / _MARGIN, right)
    axes.set_ylim(min(amounts) / _MARGIN, top)
    far = sum(
        each.seconds.expected / divisor > right or (each.amount is not None and each.amount.expected > top)
        for each in advice.found.options
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
