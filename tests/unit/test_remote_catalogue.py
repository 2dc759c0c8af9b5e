"""The clusters of a workspace in `worldsize.yml`, and the table of VM sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from worldsize.checking.settings import read_settings
from worldsize.cli.main import main
from worldsize.documents import yaml
from worldsize.remote.catalogue import (
    RemoteCluster,
    RemoteSize,
    choose_sizes,
    read_clusters,
    read_sizes,
    write_clusters,
    write_sizes,
)
from worldsize.remote.errors import RemoteError

GPU = RemoteCluster("gpu-cluster", "Standard_NC96ads_A100_v4", 4, "low_priority")
CPU = RemoteCluster("cpu-cluster", "Standard_D16s_v5", 0, "dedicated")
NEW = RemoteSize("Standard_ND256xyz_v9", 8, 256, 2048.0)
COMMENTED = """\
# what the team has
compute:
  gpu-cluster: {instance_type: Standard_NC6s_v3, max_instances: 9}   # being replaced
  own: {instance_type: Standard_ND96isr_H100_v5}
severity: {WS810: "off"}  # for now
"""


def clusters_of(text: str) -> dict[str, tuple[object, object, object]]:
    """What the checker reads of a file, which must have no fault."""
    settings = read_settings(yaml.load("worldsize.yml", text))
    assert not settings.problems

    def value(field: object) -> object:
        return None if field is None else field.value  # type: ignore[attr-defined]

    return {
        each.name: (value(each.size), value(each.max_instances), value(each.tier))
        for each in settings.computes
    }


@pytest.mark.parametrize("before", ["", "exclude: [bad]", "exclude: [bad]\n", "# only a comment\n"])
def test_the_clusters_are_added_to_a_file(before: str) -> None:
    text = write_clusters("worldsize.yml", before, [CPU, GPU])
    assert text.startswith(before)
    assert clusters_of(text) == {
        "cpu-cluster": ("Standard_D16s_v5", None, "dedicated"),
        "gpu-cluster": ("Standard_NC96ads_A100_v4", 4, "low_priority"),
    }


def test_comments_and_other_clusters_stay() -> None:
    text = write_clusters("worldsize.yml", COMMENTED, [GPU])
    for kept in (
        "# what the team has",
        "# being replaced",
        "own: {instance_type",
        '{WS810: "off"}  # for now',
    ):
        assert kept in text
    assert clusters_of(text)["gpu-cluster"] == ("Standard_NC96ads_A100_v4", 4, "low_priority")
    assert clusters_of(text)["own"][0] == "Standard_ND96isr_H100_v5"


def test_a_second_refresh_changes_nothing() -> None:
    text = write_clusters("worldsize.yml", COMMENTED, [GPU, CPU])
    assert write_clusters("worldsize.yml", text, [GPU, CPU]) == text


@pytest.mark.parametrize("name", ["on", "1e3", "007"])
def test_a_name_that_yaml_reads_as_something_else_stays_a_name(name: str) -> None:
    cluster = RemoteCluster(name, "Standard_D16s_v5", 2, "dedicated")
    assert name in clusters_of(write_clusters("worldsize.yml", "", [cluster, GPU]))


@pytest.mark.parametrize("text", ["compute: [", "compute: 3\n", "- a\n", "compute: {a: &x {b: *x}}\n"])
def test_a_file_that_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(RemoteError, match=r"worldsize\.yml"):
        write_clusters("worldsize.yml", text, [GPU])


def sizes_of(text: str) -> dict[str, tuple[float, int | None, float | None]]:
    settings = read_settings(yaml.load("worldsize.yml", text))
    assert not settings.problems
    return {size.name: (size.gpus, size.vcpus, size.ram_gib) for size in settings.vm_sizes.values()}


def test_sizes_are_added_after_what_is_there_and_a_second_time_changes_nothing() -> None:
    text = write_sizes("worldsize.yml", COMMENTED, [NEW, RemoteSize("Standard_E9_v9", 0)])
    assert text.startswith(COMMENTED)
    assert "\n  Standard_ND256xyz_v9: {gpus: 8, vcpus: 256, memory_gib: 2048}\n" in text
    assert sizes_of(text) == {"Standard_ND256xyz_v9": (8, 256, 2048), "Standard_E9_v9": (0, None, None)}
    assert write_sizes("worldsize.yml", text, [NEW, RemoteSize("STANDARD_E9_V9", 0)]) == text


def test_a_size_that_is_described_keeps_its_name_and_what_azure_does_not_tell() -> None:
    before = "vm_sizes:\n  # by hand\n  standard_nd256xyz_v9: {gpus: 4, memory_gib: 9}  # from the page\n"
    text = write_sizes("worldsize.yml", before, [RemoteSize(NEW.name, 8, 256)])
    assert "# by hand" in text
    assert "# from the page" in text
    assert sizes_of(text) == {"standard_nd256xyz_v9": (8, 256, 9)}


def test_a_size_of_the_catalogue_keeps_the_values_of_the_catalogue() -> None:
    assert not sizes_of("vm_sizes: {standard_nc96ads_a100_v4: {gpus: 1}}")


class Location:
    """The part of a workspace's answers that a refresh reads."""

    def list(self, _path: str) -> list[dict[str, object]]:
        inner = {"vmSize": "STANDARD_E9_V9", "scaleSettings": {"maxNodeCount": 2}}
        properties = {"computeType": "AmlCompute", "properties": inner}
        return [{"name": "cpus", "properties": properties}]

    def of_location(self, _kind: str) -> dict[str, object]:
        told = ("Standard_ND256xyz_v9", 8), ("Standard_E9_v9", 0), ("Standard_E10_v9", 0)
        known = ("STANDARD_NC96ADS_A100_V4", 4), ("Standard_x: {}", 8), ("Standard_ND7", None)
        return {"value": [{"name": name, "gpus": gpus, "vCPUs": 0} for name, gpus in (*told, *known)]}


def test_the_sizes_to_learn_have_gpus_or_a_cluster() -> None:
    rest: Any = Location()
    sizes = read_sizes(rest)
    names = [size.name for size in sizes]
    assert names == ["STANDARD_NC96ADS_A100_V4", "Standard_E10_v9", "Standard_E9_v9", "Standard_ND256xyz_v9"]
    (cluster,) = clusters = read_clusters(rest, names)
    assert cluster.instance_type == "Standard_E9_v9"
    assert choose_sizes(sizes[1:], clusters) == [
        RemoteSize("Standard_E9_v9", 0),
        RemoteSize("Standard_ND256xyz_v9", 8),
    ]


def test_the_sizes_of_the_project_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "worldsize.yml").write_text(write_sizes("worldsize.yml", "", [NEW]))
    monkeypatch.chdir(tmp_path)
    lines = CliRunner().invoke(main, ["catalogue", "xyz"]).output.splitlines()
    assert lines[1].split() == ["Standard_ND256xyz_v9", "8", "256", "2048", "GiB", "in", "worldsize.yml"]


def test_sizes_are_listed_by_words() -> None:
    lines = CliRunner().invoke(main, ["catalogue", "a100", "nc"]).output.splitlines()
    assert lines[0].split()[:2] == ["VM", "size"]
    assert [line.split()[0] for line in lines[1 : lines.index("")]] == [
        "Standard_NC24ads_A100_v4", "Standard_NC48ads_A100_v4", "Standard_NC96ads_A100_v4"
    ]  # fmt: skip


def test_retired_sizes_are_listed_on_request_only() -> None:
    listed = json.loads(CliRunner().invoke(main, ["catalogue", "--json"]).output)
    everything = json.loads(CliRunner().invoke(main, ["catalogue", "--json", "--all"]).output)
    assert {size["status"] for size in listed} == {"current", "retiring"}
    assert len(everything) > len(listed)


def test_words_that_match_nothing_are_an_error() -> None:
    result = CliRunner().invoke(main, ["catalogue", "abacus"])
    assert (result.exit_code, "no VM size" in result.output) == (1, True)
