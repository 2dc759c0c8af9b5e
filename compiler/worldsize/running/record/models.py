"""The models that a home has registered, as a registry that champions are in; and which versions are kept."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from worldsize.tracking import versions as tracked
from wschampion.champion import CHAMPION, Version, find_champion

METRIC_TAG, DATA_TAG = "metric.", "worldsize.data."  # how tags of a version begin


class HomeRegistry(Struct, frozen=True):
    """The registry of a home, read and written without MLflow."""

    home: Path

    @property
    def place(self) -> str:
        """What messages call it."""
        return f"`{self.home}`"

    def names(self) -> list[str]:
        """The names of all models."""
        return tracked.read_model_names(self.home)

    def versions(self, name: str) -> list[Version]:
        """The versions of a model; none if there is no such model."""
        return [
            Version(version.version, version.tags, version.created / 1000)
            for version in tracked.read_model(self.home, name)
        ]

    def set_tag(self, name: str, version: str, key: str, value: str) -> None:
        """Set a tag of a version."""
        tracked.set_tag(self.home, name, version, key, value)

    def archive(self, name: str, version: str) -> None:
        """Delete a version and its files, as far as they are the registry's own."""
        files = self.find_files(name, version)
        tracked.delete_version(self.home, name, version)
        own = (self.home / "artifacts").resolve()
        if files is not None and own in files.resolve().parents:
            shutil.rmtree(files, ignore_errors=True)

    def find_files(self, name: str, version: str) -> Path | None:
        """The folder that should hold the files of a version; None if they are elsewhere."""
        for known in tracked.read_model(self.home, name):
            address = urlsplit(known.location)
            if known.version == version and address.scheme in ("", "file"):
                return Path(unquote(address.path))
        return None

    def find_loss(self, name: str, version: str) -> str | None:
        """Where the files of a version should be, and are not; None if they are there, or elsewhere."""
        path = self.find_files(name, version)
        return None if path is None or (path / "MLmodel").is_file() else str(path)


class Archive(Protocol):
    """A registry whose versions can be put away: deleted on this machine, archived in a workspace."""

    def versions(self, name: str) -> Sequence[Version]:
        """The versions of a model that are not put away."""

    def archive(self, name: str, version: str) -> None:
        """Put a version away."""


def list_surplus(versions: Sequence[Version], models: int, in_use: Collection[str] = ()) -> list[Version]:
    """The versions to put away: never one of the newest ones, of the last champions, or in use.

    Args:
        versions: All of them.
        models: How many of the newest, and how many champions, are kept.
        in_use: Versions that a running training reads.
    """
    by_age = sorted(versions, key=lambda version: version.age, reverse=True)
    champions = [version for version in by_age if version.has_reigned or version.tags.get(CHAMPION) == "true"]
    champions.sort(key=lambda version: version.term, reverse=True)
    kept = {version.version for version in (*by_age[:models], *champions[:models])} | set(in_use)
    champion = find_champion(versions)
    if champion is not None:
        kept.add(champion.version)
    return [version for version in reversed(by_age) if version.version not in kept]


def archive_surplus(registry: Archive, name: str, models: int | None, in_use: Collection[str] = ()) -> int:
    """Put away what is not to be kept, the oldest first; returns how many versions that were."""
    surplus = [] if models is None else list_surplus(registry.versions(name), models, in_use)
    for version in surplus:
        registry.archive(name, version.version)
    return len(surplus)


def list_metrics(version: Version) -> dict[str, float]:
    """The metrics that a version was registered with."""
    metrics = {}
    for name, text in select_tags(version.tags, METRIC_TAG).items():
        with contextlib.suppress(ValueError):
            metrics[name] = float(text)
    return metrics


def select_tags(tags: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The tags that begin with a prefix, without it."""
    return {key.removeprefix(prefix): tags[key] for key in sorted(tags) if key.startswith(prefix)}
