"""`keep: {models: n}`: old versions go, and never the champion, one of the last champions, or one in use."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given

from worldsize.running.record.models import HomeRegistry, archive_surplus, list_surplus
from worldsize.tracking.versions import ModelVersion, write_version
from wschampion.champion import CHAMPION, SINCE, TERM, UNTIL, Version, find_champion


def make_versions(count: int, reigns: list[int]) -> list[Version]:
    """Versions 1 to ``count``, of which these were champions one after the other, and the last one is."""
    tags: dict[int, dict[str, str]] = {number: {} for number in range(1, count + 1)}
    for term, number in enumerate(reigns, 1):
        is_last = term == len(reigns)
        tags[number] = {
            CHAMPION: "true" if is_last else "false",
            SINCE: "2026-01-01T00:00:00Z",
            UNTIL: "" if is_last else "2026-02-01T00:00:00Z",
            TERM: str(term),
        }
    return [Version(str(number), tags[number], float(number)) for number in tags]


def numbers(versions: list[Version]) -> list[str]:
    return [version.version for version in versions]


def test_the_newest_and_the_last_champions_are_kept() -> None:
    versions = make_versions(12, [1, 2, 5, 6])
    assert numbers(list_surplus(versions, 3)) == ["1", "3", "4", "7", "8", "9"]
    assert numbers(list_surplus(versions, 1)) == ["1", "2", "3", "4", "5", "7", "8", "9", "10", "11"]
    assert numbers(list_surplus(versions, 3, in_use=["1", "7"])) == ["3", "4", "8", "9"]
    assert list_surplus(versions, 12) == []
    assert list_surplus([], 1) == []


@given(st.integers(1, 30), st.data(), st.integers(1, 12))
def test_the_champion_and_its_predecessors_stay(count: int, data: st.DataObject, models: int) -> None:
    reigns = data.draw(st.lists(st.integers(1, count), unique=True, max_size=count))
    versions = make_versions(count, reigns)
    surplus = list_surplus(versions, models)
    left = [version for version in versions if version not in surplus]
    assert find_champion(left) == find_champion(versions)
    assert {str(number) for number in reigns[-models:]} <= set(numbers(left))
    assert {str(number) for number in range(count, max(0, count - models), -1)} <= set(numbers(left))
    assert len(left) <= 2 * models
    assert list_surplus(left, models) == []


def test_versions_of_a_home_are_deleted_with_the_files_that_are_the_registrys_own(tmp_path: Path) -> None:
    registry = HomeRegistry(tmp_path / ".worldsize")
    registry.home.mkdir()
    database = sqlite3.connect(registry.home / "mlflow.db")
    with database:
        database.executescript(
            "CREATE TABLE registered_models (name TEXT PRIMARY KEY, creation_time, last_updated_time);"
            "CREATE TABLE model_versions (name, version INTEGER, creation_time, last_updated_time,"
            " description, current_stage, source, storage_location, run_id, status);"
            "CREATE TABLE model_version_tags (name, version INTEGER, key, value);"
            "CREATE TABLE registered_model_aliases (name, version INTEGER, alias);"
        )
        for version in make_versions(5, [1, 3]):
            folder = tmp_path if version.version == "2" else registry.home / "artifacts"
            folder = folder / "runs" / version.version / "model"
            folder.mkdir(parents=True)
            (folder / "MLmodel").write_text("flavors: {}")
            time = int(version.created)
            record = ModelVersion(
                "sales", version.version, folder.as_uri(), None, None, version.tags, time, time
            )
            write_version(database, record)
    database.close()
    assert archive_surplus(registry, "sales", None) == 0
    assert archive_surplus(registry, "sales", 1) == 3
    assert numbers(registry.versions("sales")) == ["3", "5"]
    left = [path.parent.parent.name for path in tmp_path.rglob("MLmodel")]
    assert sorted(left) == ["2", "3", "5"]  # version 2 has its files elsewhere
    assert archive_surplus(registry, "sales", 1) == 0
