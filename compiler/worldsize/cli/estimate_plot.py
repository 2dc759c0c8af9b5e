"""Draws an estimate: speed over instances with its interval, and where the time of a step goes."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from worldsize.planning.estimates.calibration import NOT_CALIBRATED, Calibration
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.model import Case, Estimate, StepTime

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEYOND = 4  # times the instances that were asked for
_SMALLEST = 1e-4  # of a step's time, that gets a colour


def draw_estimate(case: Case, file: Path, calibration: Calibration = NOT_CALIBRATED) -> None:
    """Write the picture as SVG, or as a page of HTML that holds it.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    picture = render_svg(case, calibration)
    if file.suffix == ".html":
        title = html.escape(
            f"{case.cluster.instance_type or case.cluster.gpu.name}: speed and time of a step"
        )
        head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        picture = f"{head}<body>{picture[picture.index('<svg') :]}</body></html>\n"
    file.write_text(picture, encoding="utf-8")


def render_svg(case: Case, calibration: Calibration = NOT_CALIBRATED) -> str:
    """The picture as the text of an SVG file; the same case gives the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    counts = list_counts(case.cluster.instance_count)
    found = [_estimate_at(case, count, calibration) for count in counts]
    known = [(count, each) for count, each in zip(counts, found, strict=True) if each is not None]
    with mpl.rc_context({"svg.hashsalt": "worldsize", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_scaling(left, known, case.cluster.instance_count)
        _draw_parts(right, [(count, each.parts) for count, each in known])
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def list_counts(instances: int) -> list[int]:
    """Doublings of instances up to a few times those that were asked for, which are among them."""
    doublings = [
        2**power for power in range((instances * _BEYOND).bit_length()) if 2**power <= instances * _BEYOND
    ]
    return sorted({*doublings, instances})


def _estimate_at(case: Case, count: int, calibration: Calibration) -> Estimate | None:
    cluster = replace(case.cluster, instance_count=count)
    ways = case.training.tensor_parallel * case.training.pipeline_parallel
    if cluster.world_size % ways:
        return None
    return estimate(case.workload, case.training, cluster, calibration)


def _draw_scaling(axes: Axes, found: Sequence[tuple[int, Estimate]], asked: int) -> None:
    counts = [count for count, _ in found]
    speeds = [each.samples_per_second for _, each in found]
    axes.fill_between(counts, [each.low for each in speeds], [each.high for each in speeds], alpha=0.2)
    axes.plot(counts, [each.expected for each in speeds], marker="o", label="expected")
    one = speeds[0].expected / counts[0]
    axes.plot(counts, [one * count for count in counts], linestyle=":", color="grey", label="linear")
    axes.axvline(asked, color="grey", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(title="Speed", xlabel="instances", ylabel="samples per second")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_minor_formatter("")
    axes.legend(frameon=False)


def _draw_parts(axes: Axes, found: Sequence[tuple[int, StepTime]]) -> None:
    places = range(len(found))
    below = [0.0] * len(found)
    for name in StepTime.__struct_fields__:
        values = [getattr(parts, name) for _, parts in found]
        if max(values) < _SMALLEST * max(parts.seconds for _, parts in found):
            continue
        axes.bar(places, values, bottom=below, label=name)
        below = [low + value for low, value in zip(below, values, strict=True)]
    axes.set(title="Time of a step", xlabel="instances", ylabel="seconds")
    axes.set_xticks(list(places), [str(count) for count, _ in found])
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
