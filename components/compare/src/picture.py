"""The picture of a comparison: each difference with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLOURS = {True: "tab:green", False: "tab:red"}


def draw_differences(comparison: Mapping[str, Any], path: Path) -> Path:
    """Draw the difference in the metric and in those of the guards, each with its 95 % interval, as a PNG."""
    import matplotlib as mpl  # takes a second, and nothing is drawn of a first model

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    promotes = comparison["verdict"] == "promote"
    shown = [(comparison["metric"], comparison["rule"], promotes, comparison["difference"])]
    shown += [(g["metric"], g["rule"], g["holds"], g["difference"]) for g in comparison["guards"]]
    figure, grid = plt.subplots(
        len(shown), 1, figsize=(7, 0.7 + 1.1 * len(shown)), layout="constrained", squeeze=False
    )
    for axes, (metric, rule, holds, difference) in zip(grid[:, 0], shown, strict=True):
        margin = difference["high"] - difference["value"]
        axes.errorbar([difference["value"]], [0], xerr=[margin], fmt="o", capsize=5, color=COLOURS[holds])
        axes.axvline(0, color="0.5", linestyle="--", linewidth=1)
        axes.set_yticks([])
        axes.set_ylim(-1, 1)
        axes.set_xlabel(f"improvement in {metric}; rule: {rule}", parse_math=False)
    figure.suptitle(f"{comparison['verdict']}: {comparison['difference']['rows']:,} rows", fontsize=10)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
