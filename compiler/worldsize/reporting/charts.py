"""Draws the curves of a training as SVG that takes its colours from the page, light or dark.

No text of the run is in a picture: titles and legends are HTML, which wraps and is read aloud. Matplotlib
writes colours as numbers, so each is drawn with one that stands for a colour of the page.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from worldsize.showing.curves import Curve

WIDTH, HEIGHT = 4.6, 2.4  # inches
POINTS = 72  # an inch, in the coordinates of the SVG
LOSS = "Loss"
SCORES = "Scores on validation rows"
_COLOURS = {
    "#a00001": "var(--c1)", "#a00002": "var(--c2)", "#a00003": "var(--c3)", "#a00004": "var(--c4)",
    "#a00005": "var(--c5)", "#a00006": "var(--c6)", "#b00001": "var(--quiet)", "#b00002": "var(--line)",
}  # fmt: skip
_SERIES = [colour for colour in _COLOURS if colour.startswith("#a")]
_QUIET, _LINE = "#b00001", "#b00002"
MAX_SERIES = len(_SERIES)
_DROPPED = (("<?xml", "?>"), ("<!DOCTYPE", ">"), ("<metadata>", "</metadata>"), ("<!--", "-->"),
            ("<style", "</style>"), (" font-family:", ";"))  # fmt: skip
_IDS = re.compile(r' id="[A-Za-z0-9.]{1,60}_\d{1,9}"')  # of groups, the same in every picture


class Chart(Struct, frozen=True):
    """Several curves over the same steps."""

    title: str
    curves: Mapping[str, Curve]


def choose_charts(curves: Mapping[str, Curve]) -> list[Chart]:
    """Group the curves of a training: loss, scores, speed and learning rate first, the others each alone."""
    left = dict(curves)
    charts = []
    for title, names in (
        (LOSS, ("loss", "validation_loss")),
        (SCORES, tuple(name for name in left if _is_score(name, left[name]))),
        ("Samples per second", ("samples_per_second", "predicted_samples_per_second")),
        ("Learning rate", ("learning_rate",)),
    ):
        chosen = {name: left.pop(name) for name in names[:MAX_SERIES] if name in left}
        if chosen:
            alone = title == SCORES and len(chosen) == 1  # without a key, the title says what it is
            charts.append(Chart(next(iter(chosen)) if alone else title, chosen))
    return charts + [Chart(name, {name: points}) for name, points in left.items()]


def _is_score(name: str, curve: Curve) -> bool:
    is_scale = name.startswith("validation_") and name not in ("validation_loss", "validation_seconds")
    return is_scale and all(0 <= value <= 1 for _, value in curve)


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(chart: Chart) -> str:
    """The chart as an SVG element without text of the run."""
    import matplotlib as mpl  # a third of a second, with what follows
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": chart.title,
        "font.family": "sans-serif",
        "font.size": 9,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(WIDTH, HEIGHT))
        FigureCanvasSVG(figure)
        figure.subplots_adjust(left=0.13, right=0.955, top=0.97, bottom=0.19)  # no layout engine: it is slow
        axes = figure.add_subplot()
        for colour, points in zip(_SERIES, chart.curves.values(), strict=False):
            steps, values = zip(*points, strict=True)
            marker = "o" if len(points) <= 40 else None
            axes.plot(steps, values, color=colour, linewidth=1.6, marker=marker, markersize=2.5)
        _style(axes, list(chart.curves.values()), may_be_log=chart.title == LOSS)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True)
    return _adapt(text.getvalue())


def _style(axes: Any, curves: Sequence[Curve], *, may_be_log: bool) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    values = [value for curve in curves for _, value in curve]
    if may_be_log and min(values) > 0 and max(values) / min(values) > 100:
        axes.set_yscale("log")
        few = max(values) / min(values) < 1e4
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,), numticks=12))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")
    elif math.isclose(min(values), max(values)):
        axes.margins(y=0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.grid(visible=True, color=_LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=_QUIET, length=0)
    axes.set_xlabel("training step", color=_QUIET)
    axes.yaxis.get_offset_text().set_color(_QUIET)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _adapt(svg: str) -> str:
    """The SVG for a page: no prologue, ids, or fonts; colours of the page, and its size from its place."""
    for start, end in _DROPPED:
        svg = _drop(svg, start, end)
    for colour, name in _COLOURS.items():
        svg = svg.replace(colour, name)
    _, _, content = _IDS.sub("", svg).partition(">")  # behind the attributes of the first element
    points = f"{WIDTH * POINTS:g} {HEIGHT * POINTS:g}"
    return f'<svg viewBox="0 0 {points}" aria-hidden="true" focusable="false">{content.rstrip()}'


def _drop(text: str, start: str, end: str) -> str:
    """A text without everything from each ``start`` to the ``end`` behind it."""
    first, *rest = text.split(start)
    return first + "".join(part.partition(end)[2] for part in rest)
