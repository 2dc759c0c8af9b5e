"""The catalogue answers fast, in any case, and says nothing that it does not know."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from worldsize.facts import optimizers, table, vm_sizes

FACTS = Path(table.__file__).parent


@pytest.mark.parametrize("name", vm_sizes.names())
def test_every_row_is_well_formed(name: str) -> None:
    size = vm_sizes.lookup(name)
    assert size is not None
    assert size.name == name
    assert size.source
    assert size.vcpus > 0
    assert size.gpus >= 0
    assert (size.devices == 0) == (size.gpus == 0) == (size.gpu_model == "")
    if size.status == "retiring":
        assert size.retirement_date is not None
    if size.retirement_date is not None:
        assert size.status == ("retired" if size.retirement_date <= vm_sizes.AS_OF else "retiring")


def test_the_catalogue_is_whole_and_has_no_name_twice() -> None:
    with (FACTS / "vm_sizes.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(vm_sizes.names()) == len({row["name"].lower() for row in rows}) == 87
    assert {row["status"] for row in rows} == {"current", "retiring", "retired"}
    assert {row["capacity"] for row in rows} == {"", "no-growth", "no-new-capacity"}


def test_case_does_not_matter() -> None:
    size = vm_sizes.lookup("STANDARD_nc96ADS_a100_V4")
    assert size is not None
    assert (size.name, size.gpus, size.devices) == ("Standard_NC96ads_A100_v4", 4.0, 4)
    assert vm_sizes.lookup("Standard_NC97") is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Standard_NC96ads_A100v4", "Standard_NC96ads_A100_v4"),
        ("NC24s_v3", "Standard_NC24s_v3"),
        ("nd96asr_v4", "Standard_ND96asr_v4"),
        ("Standard_D16_v5", "Standard_D16s_v5"),
        ("my-cluster", None),
    ],
)
def test_suggestions(typed: str, meant: str | None) -> None:
    assert vm_sizes.suggest(typed) == meant


def test_a_fraction_of_a_card_is_one_device() -> None:
    sixth = vm_sizes.lookup("Standard_NV6ads_A10_v5")
    assert sixth is not None
    assert sixth.gpus == pytest.approx(1 / 6, abs=1e-3)
    assert sixth.devices == 1


def test_growth_restrictions() -> None:
    sizes = [vm_sizes.lookup(name) for name in vm_sizes.names()]
    restricted = {size.name for size in sizes if size is not None and size.is_growth_restricted}
    assert {"Standard_DS3_v2", "Standard_E8s_v3", "Standard_F72s_v2"} <= restricted
    assert not {"Standard_D16s_v5", "Standard_ND96isr_H100_v5"} & restricted


def test_an_empty_cell_is_unknown_not_zero() -> None:
    h200 = vm_sizes.lookup("Standard_ND96isr_H200_v5")
    confidential = vm_sizes.lookup("Standard_NCC40ads_H100_v5")
    assert h200 is not None
    assert confidential is not None
    assert h200.gpu_memory_gib == 141
    assert confidential.ib_gbps_per_node is None
    assert h200.rdma is True
    assert confidential.rdma is None


def test_bandwidth_is_in_gigabytes() -> None:
    h100 = vm_sizes.lookup("Standard_ND96isr_H100_v5")
    assert h100 is not None
    assert h100.gpu_memory_bandwidth_gigabytes_per_s == 3350


def test_importing_reads_nothing_and_a_second_lookup_reads_nothing_more() -> None:
    code = (
        "from worldsize.facts import vm_sizes\n"
        "assert vm_sizes._rows.cache_info().currsize == 0\n"
        "[vm_sizes.lookup(name) for name in ('Standard_D16s_v5', 'standard_nc24s_v3')]\n"
        "assert vm_sizes._rows.cache_info().misses == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_optimizers() -> None:
    adamw = optimizers.lookup("AdamW")
    sgd = optimizers.lookup("SGD")
    assert adamw is not None
    assert sgd is not None
    assert (adamw.rule, adamw.beta1, adamw.beta2, adamw.epsilon) == ("sqrt", 0.9, 0.999, 1e-8)
    assert (sgd.rule, sgd.beta1) == ("linear", None)
    assert optimizers.lookup("lion") is None
    assert {"sgd", "momentum", "lars", "adam", "adamw", "lamb"} <= set(optimizers.names())
