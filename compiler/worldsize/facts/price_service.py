"""Reads prices from the Azure Retail Prices API, which needs no account.

The API and its fields are described under "Azure Retail Prices overview" on Microsoft Learn. It answers at
most 1,000 meters a page and, to many requests, 429 with the seconds to wait.
"""

from __future__ import annotations

import http.client
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timezone
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from worldsize.base.problem import HelpfulError
from worldsize.base.whole_file import write_whole
from worldsize.base.wording import plural
from worldsize.facts.prices import REFRESHED_SOURCE, Price, Refreshed, Tier, format_prices

ADDRESS = "https://prices.azure.com/api/retail/prices"
SIZES_A_REQUEST = 20  # in one filter, so that the address stays short
MOST_PAGES = 200  # of one filter
MOST_BYTES = 64 * 1024 * 1024  # of a page
MOST_WAITS = 5  # of one request
LONGEST_WAIT_SECONDS = 120.0
TIMEOUT_SECONDS = 60.0
_WAIT_HEADERS = ("Retry-After", "x-ms-ratelimit-retailprices-retry-after")
_SAFE = "%/:?&=$'()+,;@~!*"  # characters of an address that stay; blanks are escaped
_HELP = "the prices of the catalogue stay as they are; run the command again where the network reaches Azure"


def read_prices(
    sizes: Sequence[str],
    region: str,
    currency: str = "USD",
    *,
    say: Callable[[str], None] = lambda _: None,
    address: str = ADDRESS,
) -> Refreshed:
    """The prices of VM sizes in a region, dedicated and low priority, as of today.

    Args:
        sizes: Their names, as Azure writes them.
        region: As in `az account list-locations`.
        currency: ISO 4217. Azure's prices are in USD; others are converted, for reference.
        say: Called when the API asks to wait.
        address: Of the API.

    Raises:
        HelpfulError: The API cannot be reached, or its answer is not as documented.
    """
    day = datetime.now(timezone.utc).date()
    prices: dict[tuple[str, str, Tier], Price] = {}
    for start in range(0, len(sizes), SIZES_A_REQUEST):
        chunk = sizes[start : start + SIZES_A_REQUEST]
        chosen: dict[tuple[str, Tier], tuple[str, float]] = {}
        wanted = {size.lower() for size in chunk}
        for meter in _read_meters(_query(address, chunk, region, currency), say):
            _choose(chosen, meter, wanted, region, day)
        for (size, tier), (_, amount) in chosen.items():
            prices[size, region, tier] = Price(amount, currency, region, tier, day, REFRESHED_SOURCE)
    return prices


def _query(address: str, sizes: Sequence[str], region: str, currency: str) -> str:
    names = " or ".join(f"armSkuName eq {_quote(size)}" for size in sizes)
    wanted = (
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption'"
        f" and armRegionName eq {_quote(region)} and ({names})"
    )
    return f"{address}?{urlencode({'currencyCode': _quote(currency), '$filter': wanted})}"


def _quote(text: str) -> str:
    """A text in a filter of OData, where two quotes are one."""
    return "'" + text.replace("'", "''") + "'"


def _read_meters(address: str, say: Callable[[str], None]) -> Iterator[Mapping[str, Any]]:
    """The meters of every page."""
    server, page = urlsplit(address).hostname, address
    for _ in range(MOST_PAGES):
        answer = _get(page, say)
        items = answer.get("Items") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise HelpfulError(f"`{server}` answers something else than prices", _HELP)
        yield from items
        following = answer.get("NextPageLink")
        if not following:
            return
        if not isinstance(following, str) or _origin(following) != _origin(address):
            raise HelpfulError(f"`{server}` refers to a next page of another server", _HELP)
        page = quote(following, safe=_SAFE)
    raise HelpfulError(f"`{server}` has more than {MOST_PAGES} pages of prices", _HELP)


def _origin(address: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of an address; links to next pages name the port 443, which is the default."""
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:  # it is not a number
        port = 0
    default = {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, parts.hostname, default if port is None else port


def _get(address: str, say: Callable[[str], None]) -> Any:
    """The JSON at an address. It waits as long as the server asks."""
    server = urlsplit(address).hostname
    request = urllib.request.Request(address, headers={"Accept": "application/json"})  # noqa: S310 - ADDRESS
    for _ in range(MOST_WAITS):
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - as above
                content = answer.read(MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in (429, 503):
                raise HelpfulError(f"`{server}` answers {error.code} {error.reason}", _HELP) from error
            seconds = _read_wait(error.headers)
            say(f"`{server}` asks to wait {plural(math.ceil(seconds), 'second')}")
            time.sleep(seconds)
            continue
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise HelpfulError(f"`{server}` cannot be reached: {reason}", _HELP) from error
        try:
            return json.loads(content)
        except ValueError as error:
            raise HelpfulError(f"the answer of `{server}` is not JSON: {error}", _HELP) from error
    raise HelpfulError(f"`{server}` still refuses requests after {plural(MOST_WAITS, 'wait')}", _HELP)


def _read_wait(headers: Message) -> float:
    """Seconds to wait, bounded; ``Retry-After`` can also be a date, which Azure does not send."""
    for name in _WAIT_HEADERS:
        try:
            seconds = float(headers[name] or "")
        except ValueError:
            continue
        if math.isfinite(seconds):
            return min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)
    return LONGEST_WAIT_SECONDS / 2


def _choose(
    chosen: dict[tuple[str, Tier], tuple[str, float]],
    meter: Mapping[str, Any],
    wanted: set[str],
    region: str,
    day: date,
) -> None:
    """Keep the price of a meter if it is one of ours: the newest that is in effect, of equals the highest.

    Two Spot meters of one size can be in effect, and Azure does not say which of them bills.
    """
    size, amount = str(meter.get("armSkuName")).lower(), meter.get("retailPrice")
    tier = _read_tier(meter)
    if tier is None or size not in wanted or meter.get("armRegionName") != region:
        return
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 < amount < math.inf:
        return
    since = str(meter.get("effectiveStartDate") or "")
    if since[:10] <= day.isoformat() and (since, amount) > chosen.get((size, tier), ("", 0.0)):
        chosen[size, tier] = (since, float(amount))


def _read_tier(meter: Mapping[str, Any]) -> Tier | None:
    """The tier of a meter; None for one of Windows, of Cloud Services, or of no hour of a VM.

    The meters named Low Priority are those of Batch nodes that Azure has retired: see README.md of the facts.
    """
    product, name = str(meter.get("productName")), str(meter.get("meterName"))
    words = product.split()
    if "Windows" in words or "Win" in words or "CloudServices" in words or "Cloud Services" in product:
        return None
    if meter.get("type") != "Consumption" or meter.get("unitOfMeasure") != "1 Hour":
        return None
    if name.endswith(" Low Priority"):
        return None
    return "low_priority" if name.endswith(" Spot") else "dedicated"


def write_prices(path: Path, earlier: Refreshed, read: Refreshed, names: Mapping[str, str]) -> None:
    """Write the prices that were read, and those known before of other regions, to a project's file.

    A reader sees the old file or the new one. The folder is made if it is missing.

    Args:
        path: The file.
        earlier: What it has now.
        read: What was read. It replaces everything known of the regions that it has.
        names: The sizes as Azure writes them, by their names in small letters.

    Raises:
        HelpfulError: The file cannot be written; it is as it was.
    """
    regions = {key[1] for key in read}
    kept = {key: price for key, price in earlier.items() if key[1] not in regions}
    text = format_prices({**kept, **read}, names)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise HelpfulError(f"`{path}` cannot be written: {error.strerror}") from error
