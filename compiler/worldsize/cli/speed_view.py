"""Measured speeds beside predicted ones, for `worldsize show` and `worldsize runs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from worldsize.base.wording import plural, show_digits
from worldsize.cli import common
from worldsize.cli.common import show_share
from worldsize.planning.estimates.measured_case import compare_speed

if TYPE_CHECKING:
    from worldsize.planning.estimates.calibration import Speed
    from worldsize.planning.estimates.measured_case import ComparedSpeed
    from worldsize.planning.estimates.prediction import Prediction

HEADINGS = ("samples/s", "predicted")
_FAR_BELOW, _FAR_ABOVE = 0.1, 2.0  # ratios that are said as factors


def compare_speeds(speeds: Mapping[str, Speed]) -> dict[str, ComparedSpeed]:
    """The speed of each step that reported one, beside what was predicted of it."""
    return {name: compare_speed(speed) for name, speed in speeds.items()}


def render_speed(compared: ComparedSpeed) -> Iterator[str]:
    """The speed of a step as lines of `worldsize show`."""
    measured, prediction, ratio = show_digits(compared.measured), compared.prediction, compared.ratio
    if prediction is None:
        yield f"samples/s: {measured}"
    elif ratio is None:
        yield f"samples/s: {measured}"
        gpus = plural(prediction.world_size, "GPU")
        yield f"predicted for {prediction.cluster}, {gpus}: {_show_bounds(prediction, ' (')}) samples/s"
    else:
        yield f"samples/s: {measured} (predicted {_show_bounds(prediction, ', ')}), ratio {ratio:.3g}"
        if not compared.is_inside:
            yield describe_difference(ratio)


def _show_bounds(prediction: Prediction, before: str) -> str:
    speed = prediction.samples_per_second
    return f"{show_digits(speed.expected)}{before}{show_digits(speed.low)} to {show_digits(speed.high)}"


def describe_difference(ratio: float) -> str:
    """How far a measured speed is from the predicted one, by their ratio."""
    if ratio >= _FAR_ABOVE:
        return f"measured {show_digits(ratio)} times the prediction"
    if ratio < _FAR_BELOW:
        return f"the prediction is {show_digits(1 / ratio)} times what was measured"
    return f"measured {show_share(abs(1 - ratio))} {'below' if ratio < 1 else 'above'} the prediction"


def _make_cells(compared: Mapping[str, ComparedSpeed]) -> tuple[str, str]:
    """The two cells of a run, one value for each step that trained."""
    measured = [show_digits(speed.measured) for speed in compared.values()]
    predicted = [_show_predicted(speed) for speed in compared.values() if speed.prediction is not None]
    return ", ".join(measured), ", ".join(predicted)


def _show_predicted(compared: ComparedSpeed) -> str:
    prediction = compared.prediction
    assert prediction is not None
    expected = show_digits(prediction.samples_per_second.expected)
    return expected if compared.ran_there else f"{expected} on {prediction.cluster}"


def add_columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], speeds: Sequence[Mapping[str, ComparedSpeed]]
) -> tuple[list[str], list[list[str]]]:
    """The table of runs with the columns of speeds, if any run has one."""
    if not any(speeds):
        return list(headings), [list(row) for row in rows]
    added = map(_make_cells, speeds)
    return [*headings, *HEADINGS], [[*row, *cells] for row, cells in zip(rows, added, strict=True)]


def describe_speed(compared: ComparedSpeed) -> dict[str, Any]:
    """The speed of a step as plain data; null where nothing was predicted, or on other hardware."""
    prediction, predicted, predicted_for = compared.prediction, None, None
    if prediction is not None:
        predicted = common.describe(prediction.samples_per_second, "low", "expected", "high")
        predicted_for = common.describe(prediction, "instance_type", "instance_count")
        predicted_for["gpus"] = prediction.world_size
    return {
        "samples_per_second": float(f"{compared.measured:.5g}"),
        "predicted": predicted,
        "predicted_for": predicted_for,
        "ratio": None if compared.ratio is None else float(f"{compared.ratio:.4g}"),
        "inside": compared.is_inside,
    }
