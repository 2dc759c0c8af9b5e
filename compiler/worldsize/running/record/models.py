"""The models that a home has registered, as a registry that champions are in."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from worldsize.tracking import versions as tracked
from wschampion.champion import Version

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
