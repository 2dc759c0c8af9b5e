"""The confusion matrix as an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_NUMBERS = 30  # with more classes the cells do not show their counts


def draw_confusion(counts: npt.NDArray[np.int64], classes: Sequence[str], path: Path) -> None:
    """Draw `counts` `[classes, classes]`, true classes as rows and predicted classes as columns, as a PNG.

    Colour is the share of the true class, so small classes are as easy to read as large ones.
    """
    import matplotlib as mpl  # needed only for classifiers

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = min(16.0, 2.5 + 0.45 * len(classes))
    figure, axes = plt.subplots(figsize=(side, side), layout="constrained")
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted class", ylabel="true class", title=f"{int(counts.sum()):,} rows")
    if len(classes) <= MOST_NUMBERS:
        names = [name if len(name) <= 16 else f"{name[:15]}…" for name in classes]
        axes.set_xticks(
            range(len(names)), names, rotation=90 if max(map(len, names)) > 3 else 0, parse_math=False
        )
        axes.set_yticks(range(len(names)), names, parse_math=False)
        _write_counts(axes, counts, shares)
    figure.colorbar(image, ax=axes, shrink=0.7, label="share of the true class")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _write_counts(axes: Any, counts: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]) -> None:
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=8)
