"""The prices in `worldsize catalogue`, and `--prices`, which reads those of today."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worldsize.base.wording import plural
from worldsize.checking import settings
from worldsize.cli import common, workspace_options
from worldsize.facts import prices, vm_sizes
from worldsize.facts import prices as facts
from worldsize.remote import prices as remote

if TYPE_CHECKING:
    from worldsize.checking.settings import Settings
    from worldsize.facts.prices import Price, PriceList
    from worldsize.facts.vm_sizes import VmSize

REMOVE_FILE = "remove the file; `worldsize catalogue --prices` writes a new one"


def read_project_prices(project: Settings, region: str | None) -> PriceList:
    """The prices of a project, in the user's region or else its own; exits if its file is wrong."""
    try:
        return prices.read_price_list(region or project.region, locate_file(project))
    except prices.PriceFileError as error:
        common.refuse(str(error), REMOVE_FILE)


def locate_file(project: Settings) -> Path:
    """The file of a project's prices, relative to the current folder."""
    return Path(os.path.relpath(project.prices_file))


def show_amounts(prices: PriceList, size: VmSize) -> tuple[str, str]:
    """The cells of a row: dedicated and low priority, empty where the price is unknown."""
    return _show(prices.find(size.name, "dedicated")), _show(prices.find(size.name, "low_priority"))


def _show(price: Price | None) -> str:
    return "" if price is None else f"{price.amount:.5g} {price.currency}"


def describe_prices(prices: PriceList, size: VmSize) -> dict[str, Any]:
    """The prices of a size for JSON: null where they are unknown."""
    from msgspec import to_builtins

    dedicated, low = prices.find(size.name, "dedicated"), prices.find(size.name, "low_priority")
    return {"prices": {"dedicated": to_builtins(dedicated), "low_priority": to_builtins(low)}}


def describe_list(prices: PriceList, sizes: Sequence[VmSize]) -> str:
    """The sentence below the table: what the prices are, where, of which day."""
    found = [prices.find(size.name, tier) for size in sizes for tier in facts.TIERS]
    days = sorted({price.as_of.isoformat() for price in found if price is not None})
    if days:
        dates = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        default = "" if prices.is_declared else ", the default region"
        return (
            f"Prices of an instance and hour in {prices.region}{default}, as of {dates}."
            " Empty cells are unknown; low priority is the Spot rate of that day."
        )
    near = facts.suggest_region(prices.region, prices.refreshed)
    if near is None or prices.region in facts.list_regions(refreshed=prices.refreshed):
        return f"No price of these sizes in {prices.region} is known."
    return f"No price in {prices.region} is known; did you mean `{near}`?"


def refresh_prices(region: str | None, currency: str) -> None:
    """Read the prices of all sizes that are not retired into the project's file; exits if that fails."""
    project = settings.read_project_settings(Path.cwd())
    known = read_project_prices(project, region)
    _refuse_unwritable(known.region, currency)
    learned = project.vm_sizes
    sizes = [vm_sizes.lookup(name, learned) for name in vm_sizes.names(learned)]
    names = [size.name for size in sizes if size is not None and size.status != "retired"]
    with workspace_options.exit_on_remote_error():
        read = remote.read_prices(names, known.region, currency.upper(), say=_note)
        if not read:
            help_ = "check the name with `az account list-locations`"
            common.refuse(f"Azure lists no price of these VM sizes in `{known.region}`", help_)
        spelled = {name.lower(): name for name in vm_sizes.names(learned)}
        remote.write_prices(locate_file(project), known.refreshed, read, spelled)
    count = len({size for size, _, _ in read})
    common.say(
        f"prices of {plural(count, 'VM size')} in {known.region}, in {currency.upper()};"
        f" `{locate_file(project)}` is written"
    )


def _refuse_unwritable(region: str, currency: str) -> None:
    """Exit for words that cannot be names of a region or a currency."""
    if not (region.isascii() and region.isalnum() and region == region.lower()):
        raise click.UsageError(f"`{region}` is not the name of a region; they are written like `westeurope`")
    if not (currency.isascii() and currency.isalpha() and len(currency) == 3):
        raise click.UsageError(f"`{currency}` is not a currency; they are written like `EUR`")


def _note(text: str) -> None:
    common.say(text, err=True)
    sys.stderr.flush()
