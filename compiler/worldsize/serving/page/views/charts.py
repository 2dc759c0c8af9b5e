"""Curves of metrics. Names are values of the chart's options and never keys, which NiceGUI may evaluate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from worldsize.serving.page.views import frame
from worldsize.showing.curves import Curve

# Okabe and Ito's colours, which people with colour blindness tell apart, https://jfly.uni-koeln.de/color/,
# in shades that can be seen on both grounds; and dashes, so that colour is not all.
COLOURS = ("#2f80c3", "#d55e00", "#009e73", "#c2679c", "#b8860b", "#56a3d9", "#7a6fd0", "#8a8f98")
ROW_PIXELS, MAX_ROWS = 20, 6  # of a legend, which scrolls if it is longer
LONGEST_NAME = 40  # characters in a legend
DASHES = ("solid", "dashed", "dotted")
# Read by the browser, so that charts follow its mode.
_TEXT = "getComputedStyle(document.body).getPropertyValue('--ws-soft')"
_LINE = "getComputedStyle(document.body).getPropertyValue('--ws-line')"


def show_chart(metric: str, curves: Mapping[str, Curve]) -> None:
    """The curves of one metric.

    Args:
        metric: Its name.
        curves: Points of each run, by the name to show.
    """
    with ui.element("section").classes("ws-panel"):
        frame.tagged("h2", metric, "ws-h3")
        chart = ui.echart(_options(fit_names(curves)), renderer="svg").classes("ws-chart")
        chart.style(f"height: calc(15rem + {_legend_height(curves)}px)")
        chart.props["role"] = "img"
        last = ", ".join(f"{name} ends at {points[-1][1]:.4g}" for name, points in curves.items() if points)
        chart.props["aria-label"] = f"{metric} by step: {last}"


def fit_names(curves: Mapping[str, Curve]) -> Mapping[str, Curve]:
    """The curves under names that fit a legend: what tells jobs apart often stands at the end."""
    half = LONGEST_NAME // 2
    short = {
        name: name if len(name) <= LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}" for name in curves
    }
    is_clear = len(set(short.values())) == len(curves)
    return {short[name]: curve for name, curve in curves.items()} if is_clear else curves


def _legend_height(curves: Mapping[str, Curve]) -> int:
    """Pixels: a row for each curve, since names can be long; none for a single one."""
    return ROW_PIXELS * min(len(curves), MAX_ROWS) + 8 if len(curves) > 1 else 0


def _options(curves: Mapping[str, Curve]) -> dict[str, Any]:
    axis = {
        "axisLabel": {":color": _TEXT},
        "nameTextStyle": {":color": _TEXT},
        "axisLine": {"lineStyle": {":color": _LINE}},
        "splitLine": {"lineStyle": {":color": _LINE}},
    }
    return {
        "color": list(COLOURS),
        "animation": False,
        "grid": {
            "left": 8,
            "right": 16,
            "top": 16,
            "bottom": 28 + _legend_height(curves),
            "containLabel": True,
        },
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "legend": {
            "show": len(curves) > 1,
            "bottom": 0,
            "left": 0,
            "orient": "vertical",
            "type": "scroll" if len(curves) > MAX_ROWS else "plain",
            **({"height": _legend_height(curves)} if len(curves) > MAX_ROWS else {}),
            "padding": [4, 0, 0, 0],
            "itemGap": 3,
            "itemHeight": 10,
            "textStyle": {":color": _TEXT, "width": 260, "overflow": "truncate", "lineHeight": 16},
        },
        "xAxis": {"type": "value", "name": "step", "nameLocation": "middle", "nameGap": 24, **axis},
        "yAxis": {"type": "value", "scale": True, **axis},
        "series": [
            {
                "type": "line",
                "name": name,
                "data": [list(point) for point in points],
                "showSymbol": len(points) < 3,
                "symbolSize": 6,
                "lineStyle": {"width": 2, "type": DASHES[index // len(COLOURS) % len(DASHES)]},
            }
            for index, (name, points) in enumerate(curves.items())
        ],
    }
