"""Draws estimates: speed over instances with its interval, and where the time of a step goes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from worldsize.cli.pictures import Picture
from worldsize.planning.estimates.calibration import NOT_CALIBRATED, Calibration
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.model import Case, Estimate, StepTime
from worldsize.planning.resilience import Saving, find_saving_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BEYOND = 4  # times the instances that were asked for
_SMALLEST = 0.002  # of a step's time, that gets a colour
_WIDTH, _HEIGHT = 9.0, 3.6  # inches of one training
# Each part keeps its colour, whichever others a picture has.
_PARTS = {
    "compute": ("compute", "tab:blue"),
    "memory": ("memory", "tab:cyan"),
    "communication": ("exposed\ncommunication", "tab:orange"),
    "bubble": ("bubble", "tab:purple"),
    "input": ("input", "tab:green"),
    "latency": ("latency", "tab:grey"),
    "checkpoint": ("checkpoint", "tab:red"),
}


class Training(Struct, frozen=True):
    """A training to draw: ``saving`` is how it writes checkpoints, None where it need not write any."""

    name: str
    case: Case
    calibration: Calibration = NOT_CALIBRATED
    saving: Saving | None = None


def make_picture(trainings: Sequence[Training]) -> Picture:
    """Speed and time of a step, a row for each training."""
    title = ", ".join(training.name for training in trainings)
    size = (_WIDTH, _HEIGHT * len(trainings))
    return Picture(f"{title}: speed and time of a step", size, partial(_draw_rows, trainings))


def list_counts(instances: int) -> list[int]:
    """Doublings of instances up to a few times those that were asked for, which are among them."""
    doublings = [
        2**power for power in range((instances * _BEYOND).bit_length()) if 2**power <= instances * _BEYOND
    ]
    return sorted({*doublings, instances})


def _draw_rows(trainings: Sequence[Training], figure: Figure) -> None:
    rows = figure.subplots(len(trainings), 2, squeeze=False)
    for training, (left, right) in zip(trainings, rows, strict=True):
        count = training.case.cluster.instance_count
        found = [(each, _estimate_at(training, each)) for each in list_counts(count)]
        known = [(each, answer) for each, answer in found if answer is not None]
        _draw_scaling(left, known, count)
        left.set_title(f"{training.name}: speed", loc="left")
        _draw_parts(right, [(each, _list_parts(training, each, answer.parts)) for each, answer in known])


def _estimate_at(training: Training, count: int) -> Estimate | None:
    """The estimate with another number of instances and the same micro-batch."""
    case = training.case
    cluster = replace(case.cluster, instance_count=count)
    ways = case.training.tensor_parallel * case.training.pipeline_parallel
    if cluster.world_size % ways:
        return None
    return estimate(case.workload, case.training, cluster, training.calibration)


def _list_parts(training: Training, count: int, parts: StepTime) -> dict[str, float]:
    """Seconds of a step by what they are spent on; checkpoints are spread over the steps between them."""
    seconds = {name: getattr(parts, name) for name in StepTime.__struct_fields__}
    if training.saving is not None:
        share = find_saving_share(training.saving, count)
        seconds["checkpoint"] = parts.seconds * share / (1 - share)
    return seconds


def _draw_scaling(axes: Axes, found: Sequence[tuple[int, Estimate]], asked: int) -> None:
    counts = [count for count, _ in found]
    speeds = [each.samples_per_second for _, each in found]
    lows, highs = [each.low for each in speeds], [each.high for each in speeds]
    axes.fill_between(counts, lows, highs, alpha=0.2, linewidth=0, label="four of five measurements")
    axes.plot(counts, [each.expected for each in speeds], marker="o", label="expected")
    one = speeds[0].expected / counts[0]
    axes.plot(counts, [one * count for count in counts], linestyle=":", color="grey", label="linear")
    axes.axvline(asked, color="grey", linewidth=0.8, linestyle="--", label=f"asked: {asked}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="instances, with the same micro-batch", ylabel="samples per second")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter("")
    axes.legend(frameon=False)


def _draw_parts(axes: Axes, found: Sequence[tuple[int, dict[str, float]]]) -> None:
    longest = max(sum(parts.values()) for _, parts in found)
    unit, divisor = ("milliseconds", 1e-3) if longest < 1 else ("seconds", 1.0)
    places = range(len(found))
    below = [0.0] * len(found)
    for name, (label, colour) in _PARTS.items():
        values = [parts.get(name, 0.0) / divisor for _, parts in found]
        if max(values) * divisor < _SMALLEST * longest:
            continue
        axes.bar(places, values, bottom=below, label=label, color=colour)
        below = [low + value for low, value in zip(below, values, strict=True)]
    axes.set_title("time of a step", loc="left")
    axes.set(xlabel="instances, with the same micro-batch", ylabel=unit)
    axes.set_xticks(list(places), [str(count) for count, _ in found])
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), reverse=True)
