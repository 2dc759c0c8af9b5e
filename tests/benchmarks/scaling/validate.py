"""How well the step-time model predicts published speeds that it was not fitted on.

    python tests/benchmarks/scaling/validate.py                the table
    python tests/benchmarks/scaling/validate.py --plot F.svg   also a picture

Each size of a family of models is left out of the fit once, then each family, and at last the clusters of 32
and more GPUs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median

from fit import fit, make_constants
from msgspec import Struct
from published import Published, read_published

from worldsize.planning.estimates.calibration import NOT_CALIBRATED
from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.estimate import estimate

SMALL, LARGE = 16, 32  # GPUs of the clusters that are fitted, and of those that are predicted


class Prediction(Struct, frozen=True):
    """A published value, what was predicted for it, and the bounds."""

    row: Published
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Relative to the published value."""
        return self.predicted / self.row.value - 1

    @property
    def is_inside(self) -> bool:
        """Whether the published value is in the stated interval."""
        return self.low <= self.row.value <= self.high


def predict(rows: Sequence[Published], constants: Constants) -> list[Prediction]:
    """Predictions for rows by some constants."""
    found = []
    for row in rows:
        answer = estimate(row.workload, row.training, row.cluster, NOT_CALIBRATED, constants)
        assert answer is not None
        speed, predicted = answer.samples_per_second, row.predict(answer)
        low, high = (predicted * bound / speed.expected for bound in (speed.low, speed.high))
        found.append(Prediction(row, predicted, low, high))
    return found


def leave_out(rows: Sequence[Published], models: Sequence[str]) -> list[Prediction]:
    """Predictions for each of some models by a fit of all the others."""
    found = []
    for model in models:
        constants = make_constants(fit([row for row in rows if row.model != model]))
        found += predict([row for row in rows if row.model == model], constants)
    return found


def leave_out_large(rows: Sequence[Published]) -> list[Prediction]:
    """Predictions for large clusters by a fit of the small ones."""
    constants = make_constants(fit([row for row in rows if row.cluster.world_size <= SMALL]))
    return predict([row for row in rows if row.cluster.world_size >= LARGE], constants)


def summarise(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Mean error, shares within bounds, coverage and median width of the intervals."""
    errors = [abs(each.error) for each in predictions]
    return {
        "rows": len(predictions),
        "mean_error": mean(errors),
        "within_15": mean(each <= 0.15 for each in errors),
        "inside": mean(each.is_inside for each in predictions),
        "median_width": median(each.high / each.low for each in predictions),
    }


def validate(rows: Sequence[Published]) -> dict[str, list[Prediction]]:
    """Predictions by kind of validation."""
    transformers = sorted({row.model for row in rows if row.is_rdma_transformer})
    families: dict[str, list[str]] = {}
    for model in transformers:
        families.setdefault(model.partition("-")[0], []).append(model)
    sized = [model for models in families.values() if len(models) > 1 for model in models]
    alone = [model for models in families.values() if len(models) == 1 for model in models]
    everything = predict(rows, make_constants(fit(rows)))
    large = leave_out_large(rows)
    found = {
        "fitted: RDMA transformers": [each for each in everything if each.row.is_rdma_transformer],
        "fitted: convolutional": [
            each for each in everything if each.row.cluster.rdma and not each.row.is_rdma_transformer
        ],
        "without the size": leave_out(rows, sized),
        f"{SMALL} to {LARGE} GPUs: RDMA transformers": [
            each for each in large if each.row.is_rdma_transformer
        ],
        f"{SMALL} to {LARGE} GPUs: all": large,
    }
    found |= {f"without the family: {model}": leave_out(rows, [model]) for model in alone}
    return found


def report(found: dict[str, list[Prediction]]) -> list[str]:
    """The table, and the two bounds that are not about transformers with RDMA."""
    lines = []
    for name, predictions in found.items():
        got = summarise(predictions)
        lines.append(
            f"{name:<34} {got['rows']:>4.0f} rows  mean error {got['mean_error']:6.1%}"
            f"  within 15 % {got['within_15']:6.1%}  inside {got['inside']:6.1%}"
            f"  median width {got['median_width']:.2f}"
        )
    large = found[f"{SMALL} to {LARGE} GPUs: all"]
    points = [abs(each.predicted - each.row.value) for each in large if each.row.unit == "efficiency"]
    tcp = [abs(math.log1p(each.error)) for each in large if each.row.cluster.rdma is False]
    lines.append(f"Horovod's efficiency: off by at most {100 * max(points):.1f} points")
    lines.append(f"over TCP: off by a factor of at most {math.exp(max(tcp)):.2f}")
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plot", type=Path, help="write predicted over published speeds as SVG")
    options = parser.parse_args()
    found = validate(read_published())
    print("\n".join(report(found)))
    if options.plot:
        plot(found, options.plot)


def plot(found: dict[str, list[Prediction]], file: Path) -> None:
    """Predicted over published, a dot a row, by kind of validation."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4))
    chosen = ["without the size", f"{SMALL} to {LARGE} GPUs: all"]
    for name in chosen:
        rows = found[name]
        sizes = [each.row.cluster.world_size for each in rows]
        axes.scatter(sizes, [each.predicted / each.row.value for each in rows], s=14, alpha=0.6, label=name)
    axes.axhspan(0.85, 1.15, alpha=0.1, color="tab:green", label="within 15 %")
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="GPUs", ylabel="predicted over published speed")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(file, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
