"""`worldsize catalogue`: lists VM sizes with prices; reads clusters, sizes and prices from Azure."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
from msgspec import to_builtins

from worldsize.base import untrusted
from worldsize.base.whole_file import write_whole
from worldsize.base.wording import describe_os_error, plural
from worldsize.checking import settings
from worldsize.cli import common, workspace_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.facts import price_service, vm_sizes
from worldsize.facts import prices as facts
from worldsize.facts.prices import TIERS, Price, PriceList
from worldsize.facts.vm_sizes import Learned, VmSize
from worldsize.remote import catalogue
from worldsize.remote.rest import Rest

EPILOG = """\b
Examples:
  worldsize catalogue                   the VM sizes that can be had, and their prices
  worldsize catalogue A100              those whose name or GPU contains a word
  worldsize catalogue --refresh         a workspace's clusters and VM sizes into worldsize.yml
  worldsize catalogue --prices          today's prices into .worldsize/prices.csv

\b
--refresh writes the VM size, the limit and the tier of each cluster under `compute:` of
`worldsize.yml` in this folder. Under `vm_sizes:` it writes the GPUs, vCPUs and memory of the VM sizes
that Worldsize lacks: all with GPUs, and others if a cluster has them. It changes nothing else in the
file, and prints the quotas. `worldsize check` then knows the clusters and sizes that jobs only name.

\b
Prices are those of one instance and hour, Linux, without discounts by contract: dedicated, and low
priority, which Azure ML bills at the Spot rate. They are of `region:` of `worldsize.yml`, by default
eastus. --prices reads them from Azure's public price list, which needs no account, into
`.worldsize/prices.csv` beside `worldsize.yml`; without that file they are those of a dated snapshot.
"""


@click.command(epilog=EPILOG)
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--all", "everything", is_flag=True, help="Also sizes that are retired.")
@common.json_option
@click.option(
    "--refresh", is_flag=True, help="Read the clusters, VM sizes and quotas of a workspace in Azure."
)
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    default="worldsize.yml",
    show_default=True,
    help="The file that --refresh writes.",
)
@click.option("--prices", "read_prices", is_flag=True, help="Read today's prices of a region from Azure.")
@click.option("--region", metavar="NAME", help="The region of the prices, such as westeurope.")
@click.option("--currency", metavar="CODE", help="The currency that --prices asks for.  [default: USD]")
@workspace_options.required
def command(
    words: tuple[str, ...],
    azure: WorkspaceChoice,
    region: str | None,
    currency: str | None,
    *,
    everything: bool,
    as_json: bool,
    refresh: bool,
    file: Path,
    read_prices: bool,
) -> None:
    """List VM sizes: GPUs, memory, network, prices; or read clusters, sizes, quotas or prices from Azure."""
    if (refresh or read_prices) and (words or everything or as_json or (refresh and read_prices)):
        raise click.UsageError("`--refresh` and `--prices` each take no words, `--all` or `--json`")
    if currency is not None and not read_prices:
        raise click.UsageError("`--currency` belongs to `--prices`")
    if refresh:
        with azure.connect() as rest:
            _refresh(rest, file)
        return
    project = settings.read_project_settings(Path.cwd())
    prices_file = Path(os.path.relpath(project.prices_file))
    with common.exit_on_error():
        prices = facts.read_price_list(region or project.region, prices_file)
        if read_prices:
            names = [size.name for size in _list_sizes(project.vm_sizes)]
            spelled = {name.lower(): name for name in vm_sizes.names(project.vm_sizes)}
            _refresh_prices(prices, currency or "USD", names, spelled, prices_file)
        else:
            sizes = _list_sizes(project.vm_sizes, retired=everything)
            _show_sizes([size for size in sizes if _has_words(size, words)], prices, as_json=as_json)


def _list_sizes(learned: Learned, *, retired: bool = False) -> list[VmSize]:
    sizes = (vm_sizes.lookup(name, learned) for name in vm_sizes.names(learned))
    return [size for size in sizes if size is not None and (retired or size.status != "retired")]


def _show_sizes(sizes: Sequence[VmSize], prices: PriceList, *, as_json: bool) -> None:
    if as_json:
        by_tier = [{tier: prices.find(size.name, tier) for tier in TIERS} for size in sizes]
        documents = [
            to_builtins(size) | {"prices": to_builtins(prices_by_tier)}
            for size, prices_by_tier in zip(sizes, by_tier, strict=True)
        ]
        click.echo(json.dumps(documents, indent=2))
        return
    if not sizes:
        common.refuse("no VM size of the catalogue has these words", "`worldsize catalogue --all` lists all")
    headings = (
        *("VM size", "GPUs", "GPU", "GPU memory", "vCPUs", "memory", "InfiniBand"),
        *("dedicated", "low priority", "status"),
    )
    common.say_table(headings, [_row(size, prices) for size in sizes], right={1, 3, 4, 5, 7, 8})
    common.say("\n" + _describe_prices(prices, sizes))


def _has_words(size: VmSize, words: tuple[str, ...]) -> bool:
    text = f"{size.name} {size.gpu_model} {size.series}".lower()
    return all(word.lower() in text for word in words)


def _row(size: VmSize, prices: PriceList) -> tuple[str, ...]:
    status = f"retires on {size.retirement_date}" if size.status == "retiring" else size.status
    status = f"in {size.source}" if size.is_learned else status
    status += {"no-growth": ", no growth", "no-new-capacity": ", no new capacity"}.get(size.capacity, "")
    return (
        size.name,
        f"{size.gpus:.3g}" if size.gpus else "",
        size.gpu_model,
        _gibibytes(size.gpu_memory_gib),
        "" if size.vcpus is None else str(size.vcpus),
        _gibibytes(size.ram_gib),
        "yes" if size.rdma else "",
        *(_show(prices.find(size.name, tier)) for tier in TIERS),
        status,
    )


def _gibibytes(number: float | None) -> str:
    return "" if number is None else f"{number:g} GiB"


def _refresh(rest: Rest, file: Path) -> None:
    unlisted = [size for size in catalogue.read_sizes(rest) if vm_sizes.lookup(size.name) is None]
    clusters = catalogue.read_clusters(rest, [*vm_sizes.names(), *(size.name for size in unlisted)])
    sizes = catalogue.choose_sizes(unlisted, clusters)
    try:
        text = untrusted.read_text(file)
    except FileNotFoundError:
        text = ""
    except OSError as error:
        common.refuse(f"`{file}` cannot be read: {describe_os_error(error)}")
    written = catalogue.write_clusters(str(file), text, clusters)
    written = catalogue.write_sizes(str(file), written, sizes)
    if written != text:
        try:
            write_whole(file, written.encode())
        except OSError as error:
            common.refuse(f"`{file}` cannot be written: {error.strerror}")
    if clusters:
        rows = [
            (cluster.name, cluster.instance_type, str(cluster.max_instances), cluster.tier)
            for cluster in clusters
        ]
        common.say_table(("cluster", "VM size", "instances", "tier"), rows, right={2})
    change = "is unchanged" if written == text else "is written"
    common.say(f"{plural(len(clusters), 'cluster')} of {rest.names.shown}; `{file}` {change}")
    if sizes:
        shown = ", ".join(f"`{size.name}` ({plural(size.gpus, 'GPU')})" for size in sizes)
        common.say(f"\nVM sizes that Worldsize does not have, now in `{file}`: {shown}")
    quotas = [
        (quota.name, str(quota.used), "none" if quota.limit < 0 else str(quota.limit))
        for quota in catalogue.read_quotas(rest)
    ]
    if quotas:
        common.say("")
        common.say_table(("quota", "in use", "limit"), quotas, right={1, 2})


def _show(price: Price | None) -> str:
    return "" if price is None else f"{price.amount:.5g} {price.currency}"


def _describe_prices(prices: PriceList, sizes: Sequence[VmSize]) -> str:
    """The sentence below the table: what the prices are, where, of which day."""
    listed = [prices.find(size.name, tier) for size in sizes for tier in TIERS]
    days = sorted({price.as_of.isoformat() for price in listed if price is not None})
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


def _refresh_prices(
    prices: PriceList, currency: str, names: list[str], spelled: dict[str, str], file: Path
) -> None:
    """Read the prices of VM sizes into the project's file; exits if that fails."""
    _refuse_unwritable(prices.region, currency)
    read = price_service.read_prices(
        names, prices.region, currency.upper(), say=partial(common.say, err=True)
    )
    if not read:
        help_ = "check the name with `az account list-locations`"
        common.refuse(f"Azure lists no price of these VM sizes in `{prices.region}`", help_)
    price_service.write_prices(file, prices.refreshed, read, spelled)
    count = plural(len({size for size, _, _ in read}), "VM size")
    common.say(f"prices of {count} in {prices.region}, in {currency.upper()}; `{file}` is written")


def _refuse_unwritable(region: str, currency: str) -> None:
    """Exit for words that cannot be names of a region or a currency."""
    if not (region.isascii() and region.isalnum() and region == region.lower()):
        raise click.UsageError(f"`{region}` is not the name of a region; they are written like `westeurope`")
    if not (currency.isascii() and currency.isalpha() and len(currency) == 3):
        raise click.UsageError(f"`{currency}` is not a currency; they are written like `EUR`")
