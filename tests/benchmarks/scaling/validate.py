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
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from fit import fit, make_constants
from msgspec import Struct
from published import Published, read_published

from worldsize.cli.pictures import Picture, render_svg
from worldsize.planning.estimates.calibration import NOT_CALIBRATED
from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.estimate import estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KINDS = {
    "transformers, RDMA": "tab:blue",
    "transformers over TCP": "tab:orange",
    "convolutional networks": "tab:purple",
}
_SPREAD = 0.5  # of a doubling, that the dots of one number of GPUs take
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
    """Predicted over published, a dot a row: sizes that were left out, and clusters that were."""
    picture = Picture("Predicted over published speeds", (9.0, 4.2), partial(_draw, found))
    file.write_text(render_svg(picture), encoding="utf-8")


def _draw(found: dict[str, list[Prediction]], figure: Figure) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_ratios(left, found["without the size"], "model sizes left out of the fit")
    large = f"{SMALL} to {LARGE} GPUs"
    _draw_ratios(right, found[f"{large}: all"], f"fitted on up to {SMALL} GPUs")
    left.set_ylabel("predicted / published speed")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def _draw_ratios(axes: Axes, rows: Sequence[Prediction], title: str) -> None:
    """Dots by the kind of model and network; each with its bounds, relative to what was published."""
    axes.axhspan(0.85, 1.15, alpha=0.12, color="tab:green", label="within 15 %", linewidth=0)
    axes.axhline(1, color="grey", linewidth=0.8)
    for label, colour in _KINDS.items():
        chosen = [each for each in rows if _name_kind(each.row) == label]
        sizes = _spread([each.row.cluster.world_size for each in chosen])
        ratios = [each.predicted / each.row.value for each in chosen]
        bounds = [
            [ratio - each.low / each.row.value for ratio, each in zip(ratios, chosen, strict=True)],
            [each.high / each.row.value - ratio for ratio, each in zip(ratios, chosen, strict=True)],
        ]
        axes.errorbar(sizes, ratios, bounds, fmt="none", ecolor=colour, alpha=0.15, linewidth=1)
        axes.scatter(sizes, ratios, s=12, alpha=0.7, color=colour, label=label, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_title(title, loc="left")
    axes.set(xlabel="GPUs", ylim=(0.5, 1.6))
    counts = sorted({2 ** round(math.log2(each.row.cluster.world_size)) for each in rows})
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()


def _spread(sizes: Sequence[int]) -> list[float]:
    """Places beside each other for the rows of one size, so that their dots can be told apart."""
    seen: dict[int, int] = {}
    places = []
    for size in sizes:
        seen[size] = seen.get(size, 0) + 1
        share = (seen[size] - 0.5) / sizes.count(size)
        places.append(size * 2 ** (_SPREAD * (share - 0.5)))
    return places


def _name_kind(row: Published) -> str:
    if row.cluster.rdma is False:
        return "transformers over TCP"
    return "transformers, RDMA" if row.is_rdma_transformer else "convolutional networks"


if __name__ == "__main__":
    main()
