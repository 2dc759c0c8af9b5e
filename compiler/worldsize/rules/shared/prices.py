"""The tier of a step, and the prices of sizes and tiers in the regions that a project can run in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from worldsize.azureml import fields
from worldsize.azureml.launch import Launch
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, find_node

if TYPE_CHECKING:
    from worldsize.facts.prices import Price, PriceList, Tier


class PreemptibleTier(NamedTuple):
    """The word that asks for instances which Azure may evict, and where it is."""

    word: str
    span: Span | None


def find_preemptible_tier(launch: Launch) -> PreemptibleTier | None:
    """The low-priority tier of the cluster, or the spot tier of serverless compute; None for dedicated."""
    if launch.cluster is not None and (launch.cluster.tier or "").lower() in ("low_priority", "lowpriority"):
        return PreemptibleTier(str(launch.cluster.tier), launch.cluster.tier_span)
    queue = find_node(launch.step.raw, "queue_settings")
    tier = fields.read_field(queue, "job_tier") if isinstance(queue, Mapping) else None
    if tier is not None and str(tier.value).lower() == "spot":
        return PreemptibleTier(str(tier.value), tier.span)
    return None


def find_prices(
    prices: PriceList, one: tuple[str, Tier], other: tuple[str, Tier]
) -> list[tuple[Price, Price]]:
    """The prices of two sizes and tiers in each region to judge; only pairs that can be compared."""
    from worldsize.facts.prices import find_price  # read where a rule has something to compare

    pairs = []
    for region in prices.list_judged_regions(one[0]):
        first, second = (find_price(size, region, tier, prices.refreshed) for size, tier in (one, other))
        if first is not None and second is not None and first.currency == second.currency:
            pairs.append((first, second))
    return pairs


def describe_place(pairs: list[tuple[Price, Price]]) -> str:
    """``in eastus2, one of 14 such regions (prices of 2026-06-18)``, of the first pair."""
    first, second = pairs[0]
    days = " and ".join(sorted({str(first.as_of), str(second.as_of)}))
    others = f", one of {len(pairs)} such regions" if len(pairs) > 1 else ""
    return f"in {first.region}{others} (prices of {days})"
