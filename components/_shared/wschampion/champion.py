"""Which version of a model is the champion, and how another becomes it.

A registry can set one tag of one version at a time, and nothing more. So a claim prepares its version, and
the last tag that it sets makes it count: killed at any moment, it leaves one champion. Claims have an order:
the term of each is its predecessor's plus one, and the lower job id wins where two claim at once. A claim
that another one precedes stays behind it for ever, so that whoever sees it next may clear it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol, TypeVar

from wsshards.errors import UserError, clip_text

CHAMPION = "champion"  # "true" or "false"
SINCE, UNTIL = "champion_since", "champion_until"  # UTC
EVIDENCE = "champion_evidence"
TERM = "champion_term"  # that of the predecessor plus one
JOB = "champion_job"  # that claimed it; empty for a rollback, which therefore wins
REIGN = "champion_reign_"  # and its term: when and why it was champion before
ROLLED_BACK = "rolled_back"  # UTC; no job promotes such a version again
LONGEST = 256  # characters of a tag's value that Azure ML keeps
PAUSES = (0.5, 2.0, 8.0)  # seconds before a call is repeated

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Version:
    """A version of a registered model."""

    version: str
    tags: Mapping[str, str]
    created: float = 0.0  # seconds since 1970

    @property
    def term(self) -> int:
        """The number of its claim; 0 without one."""
        text = self.tags.get(TERM, "")
        return int(text) if text.isdecimal() and len(text) < 10 else 0

    @property
    def age(self) -> tuple[float, int, str]:
        """Sorts versions by when they were registered."""
        return self.created, len(self.version), self.version

    @property
    def has_reigned(self) -> bool:
        """Whether it was the champion, and another version succeeded it."""
        return bool(self.term and self.tags.get(UNTIL))


class Registry(Protocol):
    """What a champion needs of a registry."""

    def versions(self, name: str) -> Sequence[Version]:
        """Return all versions of a model; none if there is no such model."""

    def set_tag(self, name: str, version: str, key: str, value: str) -> None:
        """Set a tag of a version."""


@dataclass(frozen=True)
class PatientRegistry:
    """A registry whose calls are repeated where they fail: each may be made twice."""

    registry: Registry
    sleep: Callable[[float], None] = time.sleep

    def versions(self, name: str) -> Sequence[Version]:
        """Return all versions of a model."""
        return self._repeat(lambda: self.registry.versions(name))

    def set_tag(self, name: str, version: str, key: str, value: str) -> None:
        """Set a tag of a version."""
        self._repeat(lambda: self.registry.set_tag(name, version, key, value))

    def _repeat(self, call: Callable[[], _Result], pauses: Sequence[float] = PAUSES) -> _Result:
        try:
            return call()
        except UserError:
            raise
        except Exception:  # each registry has its own errors; that of the last call is raised
            if not pauses:
                raise
            self.sleep(pauses[0])
        return self._repeat(call, pauses[1:])


def find_champion(versions: Sequence[Version]) -> Version | None:
    """Return the champion; None before the first.

    It is the claim with the highest term and, of these, the lowest job id. Where no version is marked,
    because the champion was deleted or a job that slept has cleared it, it is the last that was champion.
    """
    claims = [version for version in versions if version.tags.get(CHAMPION) == "true"]
    if not claims:
        claims = [v for v in versions if v.has_reigned and not v.tags.get(ROLLED_BACK)]
    return min(claims, key=_precedence, default=None)


def find_predecessor(versions: Sequence[Version]) -> Version | None:
    """Return the version that was champion before the present one, unless it was rolled back from."""
    champion = find_champion(versions)
    earlier = [
        version
        for version in versions
        if champion is not None
        and version.version != champion.version
        and not version.tags.get(ROLLED_BACK)
        and (version.has_reigned or version.tags.get(CHAMPION) == "true")
        and version.term < champion.term
    ]
    return min(earlier, key=_precedence, default=None)


def _precedence(version: Version) -> tuple[int, str, int, str]:
    return -version.term, version.tags.get(JOB, ""), len(version.version), version.version


def claim(
    registry: Registry,
    name: str,
    version: str,
    *,
    evidence: str,
    job: str,
    predecessor: str | None,
    now: datetime | None = None,
) -> Version | None:
    """Make a version the champion in place of its predecessor, and return the champion.

    It is another version if `predecessor` is no longer the champion, if another job claims at the same time
    and wins, or if this version was rolled back from. A repeated claim completes the first.

    Args:
        registry: where the versions are.
        name: of the model.
        version: the new champion.
        evidence: why, in one sentence.
        job: the id of the job that claims.
        predecessor: the version that is the champion; None for the first.
        now: the time of the claim.
    """
    versions = registry.versions(name)
    champion = find_champion(versions)
    if champion is None or champion.version != version:
        if not _may_claim(versions, version, predecessor):
            return champion
        tags = next((v.tags for v in versions if v.version == version), {})
        for key, value in (
            *_list_reigns(version, versions),
            (CHAMPION, "false"),  # one that lost before may still say otherwise
            (UNTIL, ""),
            (TERM, str(champion.term + 1 if champion else 1)),
            (JOB, job),
            (SINCE, _format(now)),
            (EVIDENCE, clip_text(evidence, LONGEST)),
        ):
            if tags.get(key, "") != value:
                registry.set_tag(name, version, key, value)
        versions = registry.versions(name)
        if not _may_claim(versions, version, predecessor):
            return find_champion(versions)
        registry.set_tag(name, version, CHAMPION, "true")
    return settle(registry, name, now=now)


def _may_claim(versions: Sequence[Version], version: str, predecessor: str | None) -> bool:
    champion = find_champion(versions)
    barred = any(v.tags.get(ROLLED_BACK) for v in versions if v.version == version)
    return not barred and (champion.version if champion else None) == predecessor


def _list_reigns(number: str, versions: Sequence[Version]) -> list[tuple[str, str]]:
    """Return the tags that keep when and why a version was the champion before."""
    return [
        (f"{REIGN}{v.term}", clip_text(f"{v.tags[SINCE]} to {v.tags[UNTIL]}: {v.tags[EVIDENCE]}", LONGEST))
        for v in versions
        if v.version == number and v.has_reigned and {SINCE, EVIDENCE} <= v.tags.keys()
    ]


def settle(registry: Registry, name: str, *, now: datetime | None = None) -> Version | None:
    """Mark the champion and no other version, and return it."""
    while True:
        versions = registry.versions(name)
        champion = find_champion(versions)
        wrong = [v for v in versions if (v.tags.get(CHAMPION) == "true") is not (v is champion)]
        if champion is None or not wrong:
            return champion
        for version in wrong:
            if version is champion:
                registry.set_tag(name, version.version, CHAMPION, "true")
                registry.set_tag(name, version.version, UNTIL, "")
                continue
            if version.term < champion.term:  # else it lost to the champion, and never was it
                registry.set_tag(name, version.version, UNTIL, _format(now))
            registry.set_tag(name, version.version, CHAMPION, "false")


def roll_back(
    registry: Registry, name: str, version: str | None = None, *, now: datetime | None = None
) -> Version:
    """Make a version the champion by hand, bar the champions that are newer, and return the version.

    Args:
        registry: where the versions are.
        name: of the model.
        version: the version; None is the champion before the present one.
        now: the time of the rollback.

    Raises:
        UserError: there is no such model, version or earlier champion, or another becomes champion meanwhile.
    """
    versions = registry.versions(name)
    champion = find_champion(versions)
    target = find_target(versions, name, version)
    if champion is None or target.version != champion.version:
        for other in versions:
            if other.age > target.age and (other.has_reigned or other.tags.get(CHAMPION) == "true"):
                registry.set_tag(name, other.version, ROLLED_BACK, _format(now))
        if target.tags.get(ROLLED_BACK):
            registry.set_tag(name, target.version, ROLLED_BACK, "")
    former = champion.version if champion else None
    evidence = f"by hand, in place of version {former}" if former else "by hand"
    winner = claim(registry, name, target.version, evidence=evidence, job="", predecessor=former, now=now)
    if winner is None or winner.version != target.version:
        number = winner.version if winner else former
        raise UserError(
            f"version {number} of `{name}` became the champion at the same moment", "roll back once more"
        )
    return winner


def find_target(versions: Sequence[Version], name: str, version: str | None) -> Version:
    """Return the version that a rollback names, or the champion before the present one.

    Raises:
        UserError: there is none.
    """
    if not versions:
        raise UserError(f"there is no model `{clip_text(name)}`")
    numbers = ", ".join(v.version for v in sorted(versions, key=lambda v: v.age)[-12:])
    if version is not None:
        target = next((v for v in versions if v.version == version), None)
        if target is None:
            raise UserError(f"`{name}` has no version `{clip_text(version)}`", f"it has {numbers}")
        return target
    earlier = find_predecessor(versions)
    if earlier is None:
        champion = find_champion(versions)
        lacking = f"before version {champion.version}" if champion else "yet"
        raise UserError(f"`{name}` has no champion {lacking}", f"name one of its versions: {numbers}")
    return earlier


def _format(now: datetime | None) -> str:
    return f"{now or datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
