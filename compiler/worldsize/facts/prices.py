"""Prices of VM sizes by region and tier: those that a project has read from Azure, else the dated snapshot.

The snapshot is ``prices.csv`` with ``price_sources.csv``. Azure ML allocates the instances of ``tier:
low_priority`` as Spot VMs since 2026-03-31, at the current Spot rate of the size in the region, so the price
of that tier is the Spot rate (see README.md beside the data). It is variable: a price is what it was on its
date.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from worldsize.base import untrusted
from worldsize.base.problem import HelpfulError
from worldsize.base.suggest import closest
from worldsize.base.wording import describe_os_error
from worldsize.facts import table

Tier = Literal["dedicated", "low_priority"]
TIERS: tuple[Tier, ...] = ("dedicated", "low_priority")
DEFAULT_REGION = "eastus"
REFRESHED_FILE = Path(".worldsize", "prices.csv")  # in the folder of `worldsize.yml`
REFRESHED_SOURCE = "Azure Retail Prices API"
COLUMNS = ("size", "region", "currency", "dedicated", "low_priority", "as_of")
LARGEST_FILE = 8 * 1024 * 1024  # bytes; the prices of every size in every region are about 1 MiB


class Price(Struct, frozen=True):
    """What one instance costs in an hour, Linux, without discounts by contract."""

    amount: float
    currency: str  # ISO 4217
    region: str  # as in `az account list-locations`: eastus
    tier: Tier
    as_of: date
    source: str

    def shown(self) -> str:
        """``3.673 USD an hour in eastus (2026-06-18)``."""
        return f"{self.amount:.5g} {self.currency} an hour in {self.region} ({self.as_of})"


Refreshed = Mapping[tuple[str, str, Tier], Price]
"""Prices that a project has read, by the size in small letters, the region and the tier."""

NOT_REFRESHED: Refreshed = MappingProxyType({})


class PriceFileError(HelpfulError):
    """A file of prices is not as :func:`format_prices` writes it; the text says where and how."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "remove the file; `worldsize catalogue --prices` writes a new one")


def find_price(size: str, region: str, tier: Tier, refreshed: Refreshed = NOT_REFRESHED) -> Price | None:
    """The price of a size, its name in any case: of the project, else of the snapshot; None if unknown.

    For a size in a region that the project has read, the snapshot does not count, so that both tiers have one
    currency and day. None is also the answer for an unknown region; :func:`suggest_region` names the closest.
    """
    name = size.lower()
    is_read = any((name, region, tier) in refreshed for tier in TIERS)
    return (refreshed if is_read else _snapshot()).get((name, region, tier))


def list_regions(size: str | None = None, refreshed: Refreshed = NOT_REFRESHED) -> list[str]:
    """The regions with a known price, of any size or of this one, in alphabetical order."""
    name = None if size is None else size.lower()
    return sorted({key[1] for prices in (_snapshot(), refreshed) for key in prices if name in (None, key[0])})


def has_price(size: str, tier: Tier) -> bool:
    """Whether the snapshot has a price of the size for a tier in any region."""
    return any(find_price(size, region, tier) for region in list_regions(size))


def suggest_region(region: str, refreshed: Refreshed = NOT_REFRESHED) -> str | None:
    """The known region that is closest to an unknown one: ``westeurope`` for ``West Europe``."""
    return closest(region.replace(" ", ""), list_regions(refreshed=refreshed))


@cache
def _snapshot() -> Refreshed:
    sources = table.index_rows("price_sources")
    prices: dict[tuple[str, str, Tier], Price] = {}
    columns: tuple[tuple[Tier, str, str], ...] = (
        ("dedicated", "usd_per_hour", "source"),
        ("low_priority", "spot_usd_per_hour", "spot_source"),
    )
    for row in table.read_rows("prices"):
        for tier, amount, source in columns:
            if row[amount]:
                origin = sources[row[source]]
                day = date.fromisoformat(origin["as_of"])
                price = Price(float(row[amount]), "USD", row["region"], tier, day, origin["source"])
                prices[row["size"].lower(), row["region"], tier] = price
    return prices


def read_prices(path: Path) -> Refreshed:
    """The prices in a file of a project; none if there is no file. An unchanged file is read once.

    Raises:
        PriceFileError: The file cannot be read, or was not written by :func:`format_prices`.
    """
    try:
        state = path.stat()
        return _read_file(path.resolve(), state.st_mtime_ns, str(path))
    except FileNotFoundError:
        return NOT_REFRESHED
    except OSError as error:
        raise PriceFileError(f"`{path}` cannot be read: {describe_os_error(error)}") from error


@cache
def _read_file(path: Path, _changed: int, shown: str) -> Refreshed:
    return parse_prices(untrusted.read_text(path, LARGEST_FILE), shown)


def parse_prices(text: str, path: str) -> Refreshed:
    """The prices in a text as :func:`format_prices` writes it.

    Raises:
        PriceFileError: The text is something else; the message gives ``path`` and the line.
    """
    rows = csv.reader(io.StringIO(text))
    prices: dict[tuple[str, str, Tier], Price] = {}
    try:
        if tuple(next(rows, ())) != COLUMNS:
            raise PriceFileError(f"{path}:1: the columns are not {','.join(COLUMNS)}")
        for row in rows:
            for price in _parse_row(row):
                prices[row[0].lower(), price.region, price.tier] = price
    except (csv.Error, ValueError) as error:
        raise PriceFileError(f"{path}:{rows.line_num}: the row is not a price: {error}") from error
    return prices


def _parse_row(row: list[str]) -> Iterable[Price]:
    if len(row) != len(COLUMNS):
        raise ValueError(f"it has {len(row)} columns, not {len(COLUMNS)}")
    _, region, currency, dedicated, low_priority, as_of = row
    day = date.fromisoformat(as_of)
    amounts: tuple[tuple[Tier, str], ...] = (("dedicated", dedicated), ("low_priority", low_priority))
    for tier, cell in amounts:
        if cell:
            amount = float(cell)
            if not (math.isfinite(amount) and amount > 0):
                raise ValueError(f"`{cell}` is not an amount")
            yield Price(amount, currency, region, tier, day, REFRESHED_SOURCE)


def format_prices(prices: Refreshed, names: Mapping[str, str]) -> str:
    """The text of a project's file: a row for each size and region, in order.

    Args:
        prices: What to write. Both tiers of a size in a region have the same date and currency.
        names: The sizes as Azure writes them, by their names in small letters.
    """
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for (size, region, tier), price in prices.items():
        name = names.get(size, size)
        line = lines.setdefault((name, region), dict.fromkeys(COLUMNS, ""))
        line |= {"size": name, "region": region, "currency": price.currency}
        line |= {tier: f"{price.amount:.12g}", "as_of": price.as_of.isoformat()}
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(line for _, line in sorted(lines.items()))
    return out.getvalue()


class PriceList(Struct, frozen=True):
    """The prices of one project: its region, and what it has read from Azure.

    Attributes:
        region: Where its instances run.
        is_declared: Whether the project or the user names the region; else it is the default.
        refreshed: The prices that it has read.
    """

    region: str = DEFAULT_REGION
    is_declared: bool = False
    refreshed: Refreshed = NOT_REFRESHED

    def find(self, size: str, tier: Tier) -> Price | None:
        """The price of a size in the project's region; None if it is unknown."""
        return find_price(size, self.region, tier, self.refreshed)

    def list_judged_regions(self, size: str) -> list[str]:
        """The regions in which something must hold of a size: the project's, or all if it names none."""
        return [self.region] if self.is_declared else list_regions(size, self.refreshed)


def read_price_list(region: str | None, file: Path) -> PriceList:
    """The prices of a project.

    Args:
        region: The region that the project or the user names; None for the default.
        file: What the project has read from Azure, if it exists.

    Raises:
        PriceFileError: As :func:`read_prices`.
    """
    return PriceList(region or DEFAULT_REGION, region is not None, read_prices(file))
