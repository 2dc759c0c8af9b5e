"""Low-priority instances of a VM size cost as much as dedicated ones."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.rules.shared.prices import describe_place, find_preemptible_tier, find_prices


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    size, tier = launch.size, find_preemptible_tier(launch)
    if size is None or tier is None:
        return
    pairs = find_prices(context.prices(), (size.name, "dedicated"), (size.name, "low_priority"))
    if pairs and all(low.amount >= dedicated.amount for dedicated, low in pairs):
        price = pairs[0][1]
        message = (
            f"`{tier.word}` instances of `{size.name}` cost as much as dedicated ones:"
            f" {price.amount:.5g} {price.currency} an hour {describe_place(pairs)}"
        )
        related = (Related(tier.span, "the tier"),) if tier.span is not None else ()
        help_ = "use dedicated instances, which Azure does not evict"
        yield Finding(launch.compute_span or launch.fallback_span, message, help_, related=related)
