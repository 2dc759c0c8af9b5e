"""Prices of VM sizes: the snapshot, a project's own, and how sizes compare."""

from __future__ import annotations

import csv
import os
from datetime import date
from pathlib import Path

import pytest

from worldsize.checking.settings import read_settings
from worldsize.documents import yaml
from worldsize.facts import prices, table, vm_sizes
from worldsize.facts.prices import PriceFileError, PriceList

H100, H200 = "Standard_ND96isr_H100_v5", "Standard_ND96isr_H200_v5"
OWN = """\
size,region,currency,dedicated,low_priority,as_of
Standard_ND96isr_H100_v5,westeurope,EUR,111.5,,2026-11-20
Standard_ND256xyz_v9,westeurope,EUR,200,150.25,2026-11-20
"""


def read_rows(name: str) -> list[dict[str, str]]:
    with (Path(table.__file__).parent / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_of_the_snapshot_is_well_formed() -> None:
    rows, sources = read_rows("prices.csv"), {row["name"]: row for row in read_rows("price_sources.csv")}
    assert len({(row["size"], row["region"]) for row in rows}) == len(rows)
    assert {row["source"] for row in rows} | {row["spot_source"] for row in rows} == {"", *sources}
    for row in rows:
        size = vm_sizes.lookup(row["size"])
        assert size is not None, row
        assert size.status != "retired"
        assert size.name == row["size"]
        assert row["region"] == row["region"].lower()
        for amount, source in (("usd_per_hour", "source"), ("spot_usd_per_hour", "spot_source")):
            assert bool(row[amount]) == bool(row[source])
            assert not row[amount] or 0 < float(row[amount]) < 1000
        # Azure bills the Spot rate at most at the dedicated price.
        assert not row["spot_usd_per_hour"] or float(row["spot_usd_per_hour"]) <= float(row["usd_per_hour"])
    assert all(date.fromisoformat(row["as_of"]) <= vm_sizes.AS_OF for row in sources.values())


def test_sizes_of_one_series_cost_as_their_gpus() -> None:
    """A price of Windows among those of Linux would not."""
    for region in prices.list_regions("Standard_NC96ads_A100_v4"):
        one, four = (
            prices.find_price(f"Standard_NC{count}ads_A100_v4", region, "dedicated") for count in (24, 96)
        )
        if one is not None and four is not None:
            assert four.amount == pytest.approx(4 * one.amount, rel=0.01)


def test_a_price_has_a_region_a_date_and_a_source() -> None:
    price = prices.find_price(H200.upper(), "eastus2", "dedicated")
    assert price is not None
    assert (price.amount, price.currency, price.region, price.tier) == (84.8, "USD", "eastus2", "dedicated")
    assert price.as_of == date(2026, 6, 18)
    assert price.source.startswith("Azure/karpenter-provider-azure:")
    assert price.shown() == "84.8 USD an hour in eastus2 (2026-06-18)"


def test_what_is_not_known_is_none() -> None:
    assert prices.find_price(H200, "eastus", "dedicated") is None
    assert prices.find_price(H200, "westeuropa", "dedicated") is None
    assert prices.find_price("Standard_NC97", "eastus", "dedicated") is None
    assert prices.find_price("Standard_D16s_v5", "eastus", "low_priority") is None


@pytest.mark.parametrize(
    ("typed", "meant"), [("westeuropa", "westeurope"), ("West Europe", "westeurope"), ("moonbase", None)]
)
def test_the_closest_region_is_suggested(typed: str, meant: str | None) -> None:
    assert prices.suggest_region(typed) == meant


def test_the_prices_of_a_project_come_first(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    assert prices.read_prices(file) == {}
    file.write_text(OWN)
    own = prices.read_prices(file)
    found = prices.find_price(H100, "westeurope", "dedicated", own)
    assert found is not None
    assert (found.amount, found.currency, found.as_of) == (111.5, "EUR", date(2026, 11, 20))
    low = prices.find_price(H100, "westeurope", "low_priority", own)
    elsewhere = prices.find_price(H100, "eastus", "dedicated", own)
    new = prices.find_price("standard_nd256XYZ_v9", "westeurope", "low_priority", own)
    assert elsewhere is not None
    assert new is not None
    assert (low, elsewhere.currency, new.amount) == (None, "USD", 150.25)
    names = {name.lower(): name for name in (H100, "Standard_ND256xyz_v9")}
    assert prices.parse_prices(prices.format_prices(own, names), "again") == own


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(OWN)
    assert len(prices.read_prices(file)) == 3
    file.write_text(OWN.splitlines()[0] + "\n")
    os.utime(file, ns=(1, 1))
    assert prices.read_prices(file) == {}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", ":1:"),
        ("size,price\n", ":1:"),
        (OWN + "a,b\n", ":4:"),
        (OWN + "a,b,USD,free,,2026-11-20\n", ":4:"),
        (OWN + "a,b,USD,nan,,2026-11-20\n", ":4:"),
        (OWN + "a,b,USD,-1,,2026-11-20\n", ":4:"),
        (OWN + "a,b,USD,1,,yesterday\n", ":4:"),
    ],
)
def test_a_file_that_is_damaged_says_where(tmp_path: Path, text: str, where: str) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(text)
    with pytest.raises(PriceFileError) as caught:
        prices.read_prices(file)
    assert str(caught.value).startswith(f"{file}{where}")


def test_a_file_that_is_no_text_says_so(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PriceFileError, match="cannot be read"):
        prices.read_prices(file)
    with pytest.raises(PriceFileError, match="cannot be read"):
        prices.read_prices(tmp_path)


def test_the_region_of_a_project(tmp_path: Path) -> None:
    path = tmp_path / "worldsize.yml"
    settings = read_settings(yaml.load(str(path), "region: westeurope\n"))
    assert (settings.region, settings.prices_file) == ("westeurope", tmp_path / ".worldsize" / "prices.csv")
    listed = prices.read_price_list(settings.region, settings.prices_file)
    assert (listed.region, listed.is_declared, listed.list_judged_regions(H100)) == (
        "westeurope",
        True,
        ["westeurope"],
    )
    default = prices.read_price_list(None, settings.prices_file)
    assert (default.region, default.is_declared) == ("eastus", False)
    assert set(default.list_judged_regions(H100)) >= {"eastus", "westeurope"}
    assert PriceList().find(H100, "dedicated") == prices.find_price(H100, "eastus", "dedicated")


def test_a_region_as_the_portal_shows_it_can_be_fixed() -> None:
    [problem] = read_settings(yaml.load("worldsize.yml", "region: West Europe\n")).problems
    assert problem.help == "did you mean `westeurope`?"
    assert problem.fix is not None
    assert problem.fix.replacement == "westeurope"


def test_the_sizes_that_are_as_good() -> None:
    def names(name: str) -> list[str]:
        size = vm_sizes.lookup(name)
        assert size is not None
        return [other.name for other in vm_sizes.find_as_good(size)]

    assert names(H100) == [H200]
    assert names(H200) == []  # neither AMD's with more memory, nor H100 with less
    assert names("Standard_NCC40ads_H100_v5") == []  # confidential
    assert names("Standard_D16s_v5") == []  # no GPUs
    for name in vm_sizes.names():
        assert name not in names(name)


def test_a_size_as_good_as_a_second_that_is_as_good_as_a_third_is_so_itself() -> None:
    sizes = {name: size for name in vm_sizes.names() if (size := vm_sizes.lookup(name)) is not None}
    better = {name: {other.name for other in vm_sizes.find_as_good(size)} for name, size in sizes.items()}
    for first, seconds in better.items():
        for second in seconds:
            for third in better[second] - {first}:
                assert third in seconds
