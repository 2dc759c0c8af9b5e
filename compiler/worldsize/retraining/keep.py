"""Which versions of a model are kept, and the archiving of the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from wschampion.champion import CHAMPION, Version, find_champion


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
