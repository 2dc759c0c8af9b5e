"""The pictures of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wsmodels.scores import ClassifierScores, MultiLabelScores, RegressionScores, Scores

Array = npt.NDArray[Any]
MAX_SHOWN_CLASSES = 30  # with more classes the cells do not show their counts
MAX_TARGETS = 4  # more do not fit one picture


def draw_scores(scores: Scores, folder: Path) -> list[Path]:
    """Draw the pictures of a task into a folder; returns their paths."""
    paths = []
    counts = scores.confusion() if isinstance(scores, ClassifierScores) else None
    if isinstance(scores, ClassifierScores) and counts is not None:
        paths.append(folder / "confusion_matrix.png")
        draw_confusion(counts, scores.classes, paths[-1])
    curves = scores.curves() if isinstance(scores, ClassifierScores | MultiLabelScores) else {}
    if curves:
        paths.append(folder / "roc_curve.png")
        draw_roc(curves, paths[-1])
    if isinstance(scores, RegressionScores):
        paths.append(folder / "predictions.png")
        draw_predictions(*scores.shown(), scores.targets, paths[-1])
    return paths


def draw_confusion(counts: npt.NDArray[np.int64], classes: Sequence[str], path: Path) -> None:
    """Draw `counts` `[classes, classes]`, true classes as rows and predicted classes as columns, as a PNG.

    Colour is the share of the true class, so small classes are as easy to read as large ones.
    """
    plt = open_pyplot()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = min(16.0, 2.5 + 0.45 * len(classes))
    figure, axes = plt.subplots(figsize=(side, side), layout="constrained")
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted class", ylabel="true class", title=f"{int(counts.sum()):,} rows")
    if len(classes) <= MAX_SHOWN_CLASSES:
        names = [shorten(name) for name in classes]
        axes.set_xticks(
            range(len(names)), names, rotation=90 if max(map(len, names)) > 3 else 0, parse_math=False
        )
        axes.set_yticks(range(len(names)), names, parse_math=False)
        _write_counts(axes, counts, shares)
    figure.colorbar(image, ax=axes, shrink=0.7, label="share of the true class")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_roc(curves: Mapping[str, tuple[Array, Array]], path: Path) -> None:
    """Draw false and true positive rates of each class, and the area below them, as a PNG."""
    plt = open_pyplot()
    figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1)
    for name, (false, true) in curves.items():
        (line,) = axes.plot(false, true)
        area = float(-np.diff(false) @ (true[1:] + true[:-1]) / 2)  # from the highest rate on down
        shown = shorten(name).replace("$", r"\$").lstrip("_") or "class"
        line.set_label(f"{shown}: area {area:.3f}")
    axes.set(xlabel="false positive rate", ylabel="true positive rate", title="ROC", aspect="equal")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_predictions(predicted: Array, true: Array, targets: Sequence[str], path: Path) -> None:
    """Draw predictions `[n, targets]` against the truth, and their residuals, as a PNG.

    The first four targets are drawn, one row of two panels each.
    """
    plt = open_pyplot()
    shown = min(len(targets), MAX_TARGETS)
    figure, grid = plt.subplots(shown, 2, figsize=(10, 4.5 * shown), layout="constrained", squeeze=False)
    style = {"s": 8, "alpha": 0.5, "linewidths": 0}
    for number, (against, residuals) in enumerate(grid):
        name = shorten(targets[number])
        against.scatter(true[:, number], predicted[:, number], **style)
        ends = [true[:, number].min(), true[:, number].max()]
        against.plot(ends, ends, color="0.5", linestyle="--", linewidth=1)
        _label(against, f"true {name}", f"predicted {name}")
        residuals.scatter(predicted[:, number], predicted[:, number] - true[:, number], **style)
        residuals.axhline(0, color="0.5", linestyle="--", linewidth=1)
        _label(residuals, f"predicted {name}", "predicted - true")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _label(axes: Any, x: str, y: str) -> None:
    axes.set_xlabel(x, parse_math=False)
    axes.set_ylabel(y, parse_math=False)


def open_pyplot() -> Any:
    """Import Matplotlib, which takes a second, to draw files only."""
    import matplotlib as mpl  # takes a second, and nothing is drawn of a language model

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def shorten(name: str) -> str:
    """Return a name that fits beside an axis."""
    return name if len(name) <= 16 else f"{name[:15]}…"


def _write_counts(axes: Any, counts: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]) -> None:
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=8)
