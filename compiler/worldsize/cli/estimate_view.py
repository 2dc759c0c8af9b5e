"""Times and costs as rows of a table, for `worldsize estimate` and `worldsize plan`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.wording import format_duration, plural
from worldsize.cli.common import show_interval, show_seconds, show_share
from worldsize.cli.pictures import Picture
from worldsize.planning.estimates.calibration import NOT_CALIBRATED, Calibration
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.model import Case, Estimate, StepTime
from worldsize.planning.resilience import Saving, find_saving_share
from wstrain.plan_inputs import COMPILE_PAYS_SECONDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from worldsize.api.forecast import Estimated, StepForecast
    from worldsize.facts.prices import Price
    from worldsize.planning.cost import Cost
    from worldsize.planning.estimates.model import Interval

_CENT = 0.01
_TIMES = (
    *((0.1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")),
    (math.inf, 86_400, "days"),
)
_SMALL_SECONDS = 600.0  # of all epochs on one GPU, below which more GPUs are not worth their start
_SMALLEST_SHARE = 0.005  # of a step's time, that is shown


def render_estimated(estimated: Estimated) -> str:
    """The table of an estimate file."""
    rows = [("unknown", estimated.unknown or "")]
    if estimated.estimate is not None:
        rows = list(_speed(estimated.estimate))
    cost = estimated.cost
    rows += _prices(cost.dedicated_price, cost.low_priority_price, estimated.case.cluster.instance_count)
    if estimated.estimate is not None:
        rows.append(("rests on", estimated.estimate.basis))
    return "\n".join([_describe_cluster(estimated.case), *_align(rows)])


def render_forecasts(forecasts: dict[str, StepForecast]) -> str:
    """A block for each training step, or a line that says why its time is unknown."""
    return "\n".join(_render_forecast(name, forecast) for name, forecast in forecasts.items())


def _render_forecast(name: str, forecast: StepForecast) -> str:
    time, cost, case = forecast.time, forecast.cost, forecast.time.case
    if time.estimate is None or case is None or cost is None:
        return f"{name}  time unknown: {time.unknown}\n"
    spans = (("an epoch", time.epoch_seconds), ("all epochs", time.total_seconds))
    rows = [(name, show_seconds(span, _TIMES)) for name, span in spans if span is not None]
    rows += _speed(time.estimate)
    if time.compiled is not None:
        pays = f"it pays in {COMPILE_PAYS_SECONDS / 60:.0f} minutes of training or more"
        rows.append(("torch.compile", f"{'on' if time.compiled else 'off'}: {pays}"))
    rows += _costs(cost.dedicated, cost.low_priority)
    if forecast.tier == "low_priority" and cost.low_priority_price is None:
        unknown = f"unknown in {forecast.region}: `worldsize catalogue --prices` reads today's prices"
        rows.append(("cost, low priority", unknown))
    rows += _prices(cost.dedicated_price, cost.low_priority_price, case.cluster.instance_count)
    rows += _advise_small(time.total_seconds, case)
    rows += [("left out", "the start of the nodes"), ("rests on", time.estimate.basis)]
    return "\n".join([f"{name}  time and cost on {_describe_cluster(case)}", *_align(rows), ""])


def _advise_small(total: Interval | None, case: Case) -> Iterator[tuple[str, str]]:
    """Say that one GPU is enough: it holds the model, and needs no longer than all of them in turn."""
    gpus, whole = case.cluster.world_size, case.training.strategy == "ddp"
    if total is not None and gpus > 1 and whole and (seconds := total.expected * gpus) < _SMALL_SECONDS:
        yield "enough", f"one GPU, which takes about {format_duration(seconds)} or less for all epochs"


def _describe_cluster(case: Case) -> str:
    cluster = case.cluster
    what = cluster.instance_type or f"{cluster.gpus_per_instance} {cluster.gpu.name}"
    return f"{cluster.instance_count} × {what}, {plural(cluster.world_size, 'GPU')}"


def _align(rows: list[tuple[str, str]]) -> Iterator[str]:
    width = max(len(name) for name, _ in rows)
    return (f"  {name:<{width}}  {text}" for name, text in rows)


def _speed(estimate: Estimate) -> Iterator[tuple[str, str]]:
    yield "a step", show_seconds(estimate.step_seconds, _TIMES)
    yield "samples per second", show_interval(estimate.samples_per_second)
    if estimate.tokens_per_second_per_gpu is not None:
        yield "tokens per second and GPU", show_interval(estimate.tokens_per_second_per_gpu)
    if estimate.model_flops_utilisation is not None:
        yield "model FLOPs utilisation", show_share(estimate.model_flops_utilisation, 1)
    if estimate.scaling_efficiency is not None:
        yield "scaling efficiency", show_share(estimate.scaling_efficiency, 1)
    yield "bound by", f"{estimate.bound} ({_show_parts(estimate.parts)})"


def _show_parts(parts: StepTime) -> str:
    shares = ((name, getattr(parts, name) / parts.seconds) for name in parts.__struct_fields__)
    return ", ".join(f"{name} {show_share(share)}" for name, share in shares if share >= _SMALLEST_SHARE)


def _costs(dedicated: Cost | None, low_priority: Cost | None) -> Iterator[tuple[str, str]]:
    """The whole training on each tier."""
    if dedicated is not None:
        yield "cost, dedicated", _show_cost(dedicated)
    if low_priority is not None:
        loss = show_share(low_priority.expected_loss, 1)
        yield "cost, low priority", f"{_show_cost(low_priority)}, {loss} of the time lost by evictions"


def _show_cost(cost: Cost) -> str:
    if cost.amount is None:
        return "unknown"
    return f"{'less than 0.01' if cost.amount < _CENT else f'{cost.amount:,.2f}'} {cost.currency}"


def _prices(dedicated: Price | None, low_priority: Price | None, instances: int) -> Iterator[tuple[str, str]]:
    for name, price in (("dedicated", dedicated), ("low priority", low_priority)):
        if price is not None:
            yield f"an hour, {name}", _show_price(price, instances)


def _show_price(price: Price, instances: int) -> str:
    amount = f"{price.amount * instances:,.2f} {price.currency}"
    return f"{amount} for {plural(instances, 'instance')} in {price.region}, as of {price.as_of}"


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
    doublings = (2**power for power in range((instances * _BEYOND).bit_length()))
    return sorted({*doublings, instances})


def _draw_rows(trainings: Sequence[Training], figure: Figure) -> None:
    rows = figure.subplots(len(trainings), 2, squeeze=False)
    for training, (left, right) in zip(trainings, rows, strict=True):
        count = training.case.cluster.instance_count
        answers = [
            (instances, answer)
            for instances in list_counts(count)
            if (answer := _estimate_at(training, instances)) is not None
        ]
        _draw_scaling(left, answers, count)
        left.set_title(f"{training.name}: speed", loc="left")
        _draw_parts(right, [(at, _list_parts(training, at, answer.parts)) for at, answer in answers])


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


def _draw_scaling(axes: Axes, estimates: Sequence[tuple[int, Estimate]], instances: int) -> None:
    counts = [count for count, _ in estimates]
    speeds = [estimate.samples_per_second for _, estimate in estimates]
    lows, highs = [speed.low for speed in speeds], [speed.high for speed in speeds]
    axes.fill_between(counts, lows, highs, alpha=0.2, linewidth=0, label="four of five measurements")
    axes.plot(counts, [speed.expected for speed in speeds], marker="o", label="expected")
    one = speeds[0].expected / counts[0]
    axes.plot(counts, [one * count for count in counts], linestyle=":", color="grey", label="linear")
    axes.axvline(instances, color="grey", linewidth=0.8, linestyle="--", label=f"asked: {instances}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="instances, with the same micro-batch", ylabel="samples per second")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter("")
    axes.legend(frameon=False)


def _draw_parts(axes: Axes, parts_by_count: Sequence[tuple[int, dict[str, float]]]) -> None:
    longest = max(sum(parts.values()) for _, parts in parts_by_count)
    unit, divisor = ("milliseconds", 1e-3) if longest < 1 else ("seconds", 1.0)
    places = range(len(parts_by_count))
    below = [0.0] * len(parts_by_count)
    for name, (label, colour) in _PARTS.items():
        values = [parts.get(name, 0.0) / divisor for _, parts in parts_by_count]
        if max(values) * divisor < _SMALLEST * longest:
            continue
        axes.bar(places, values, bottom=below, label=label, color=colour)
        below = [low + value for low, value in zip(below, values, strict=True)]
    axes.set_title("time of a step", loc="left")
    axes.set(xlabel="instances, with the same micro-batch", ylabel=unit)
    axes.set_xticks(list(places), [str(count) for count, _ in parts_by_count])
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), reverse=True)
