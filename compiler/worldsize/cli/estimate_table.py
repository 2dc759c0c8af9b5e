"""Times and costs as rows of a table, for `worldsize estimate` and `worldsize plan`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from worldsize.base.wording import plural
from worldsize.cli.quantities import show_interval, show_share
from wstrain.plan_inputs import COMPILE_PAYS_SECONDS

if TYPE_CHECKING:
    from worldsize.api.forecast import Estimated, StepForecast
    from worldsize.facts.prices import Price
    from worldsize.planning.cost import Cost
    from worldsize.planning.estimates.model import Case, Estimate, Interval, StepTime
    from worldsize.resolving.step_estimates import StepCost

_CENT = 0.01
_SMALLEST_SHARE = 0.005  # of a step's time, that is shown


def render_estimated(estimated: Estimated) -> str:
    """The table of an estimate file."""
    rows = [("unknown", estimated.unknown or "")]
    if estimated.estimate is not None:
        rows = list(_speed(estimated.estimate))
    rows += _prices(estimated.cost, estimated.case.cluster.instance_count)
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
    rows: list[tuple[str, str]] = []
    if time.epoch_seconds is not None:
        rows.append(("an epoch", _show_seconds(time.epoch_seconds)))
    if time.total_seconds is not None:
        rows.append(("all epochs", _show_seconds(time.total_seconds)))
    rows += _speed(time.estimate)
    if time.compiled is not None:
        pays = f"it pays in {COMPILE_PAYS_SECONDS / 60:.0f} minutes of training or more"
        rows.append(("torch.compile", f"{'on' if time.compiled else 'off'}: {pays}"))
    rows += _costs(cost)
    rows += _prices(cost, case.cluster.instance_count)
    rows.append(("rests on", time.estimate.basis))
    return "\n".join([f"{name}  time and cost on {_describe_cluster(case)}", *_align(rows), ""])


def _describe_cluster(case: Case) -> str:
    cluster = case.cluster
    what = cluster.instance_type or f"{cluster.gpus_per_instance} {cluster.gpu.name}"
    return f"{cluster.instance_count} × {what}, {plural(cluster.world_size, 'GPU')}"


def _align(rows: list[tuple[str, str]]) -> Iterator[str]:
    width = max(len(name) for name, _ in rows)
    return (f"  {name:<{width}}  {text}" for name, text in rows)


def _speed(found: Estimate) -> Iterator[tuple[str, str]]:
    yield "a step", _show_seconds(found.step_seconds)
    yield "samples per second", show_interval(found.samples_per_second)
    if found.tokens_per_second_per_gpu is not None:
        yield "tokens per second and GPU", show_interval(found.tokens_per_second_per_gpu)
    if found.model_flops_utilisation is not None:
        yield "model FLOPs utilisation", show_share(found.model_flops_utilisation, 1)
    if found.scaling_efficiency is not None:
        yield "scaling efficiency", show_share(found.scaling_efficiency, 1)
    yield "bound by", f"{found.bound} ({_show_parts(found.parts)})"


def _show_parts(parts: StepTime) -> str:
    shares = ((name, getattr(parts, name) / parts.seconds) for name in parts.__struct_fields__)
    return ", ".join(f"{name} {show_share(share)}" for name, share in shares if share >= _SMALLEST_SHARE)


def _costs(cost: StepCost) -> Iterator[tuple[str, str]]:
    """The whole training on each tier."""
    if cost.dedicated is not None:
        yield "cost, dedicated", _show_cost(cost.dedicated)
    if cost.low_priority is not None:
        loss = show_share(cost.low_priority.expected_loss, 1)
        yield "cost, low priority", f"{_show_cost(cost.low_priority)}, {loss} of the time lost by evictions"


def _show_cost(cost: Cost) -> str:
    if cost.amount is None:
        return "unknown"
    return f"{'less than 0.01' if cost.amount < _CENT else f'{cost.amount:,.2f}'} {cost.currency}"


def _prices(cost: StepCost, instances: int) -> Iterator[tuple[str, str]]:
    for name, price in (("dedicated", cost.dedicated_price), ("low priority", cost.low_priority_price)):
        if price is not None:
            yield f"an hour, {name}", _show_price(price, instances)


def _show_price(price: Price, instances: int) -> str:
    amount = f"{price.amount * instances:,.2f} {price.currency}"
    return f"{amount} for {plural(instances, 'instance')} in {price.region}, as of {price.as_of}"


def _show_seconds(seconds: Interval) -> str:
    """In the unit that suits the expected value."""
    divisor, unit = _choose_unit(seconds.expected)
    return show_interval(seconds, unit, divisor)


def _choose_unit(seconds: float) -> tuple[float, str]:
    for most, divisor, unit in ((0.1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < most:
            return divisor, unit
    return 86_400, "days"
