"""What a look finds in the world, as frozen values: attempts to train, the champion, the data of now."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

State = Literal["running", "finished", "failed", "interrupted"]
# Why an attempt failed. The first four pass by themselves; the others stay until somebody changes something.
Cause = Literal["eviction", "machine", "hang", "time", "code", "configuration", "data"]
Verdict = Literal["promote", "keep"]
TAG = "worldsize.retrain"  # of a job that trains in a workspace: the name of what is retrained
ROWS_TAG = f"{TAG}.rows."  # how tags with the rows of its inputs begin
_SHORTEST_LIMIT, _LONGEST_LIMIT, _LIMIT_FACTOR = 3600.0, 30 * 86400.0, 5.0  # of a run


class Fingerprint(Struct, frozen=True):
    """What a training depends on: equal fingerprints give the same model, but for its luck."""

    code: str  # of the spec, the code and the environments
    data: Mapping[str, str] = field(default_factory=dict)  # of the content of each input

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits, for names."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]


class Attempt(Struct, frozen=True):
    """One run of the training pipeline, with all its restarts."""

    run: str
    fingerprint: Fingerprint
    state: State
    firing: float = 0.0  # the time of the look that started it
    began: float = 0.0  # when it was started last; this and other times in seconds since 1970
    ended: float = 0.0
    starts: int = 1  # the first, and each time that it was continued
    trained: bool = False  # whether only evaluation, comparison and promotion are left
    verdict: Verdict | None = None  # of a finished one
    cause: Cause | None = None  # of a failed one
    reason: str = ""  # of its failure or verdict, a sentence
    limit: float | None = None  # seconds that it may take


class Facts(Struct, frozen=True):
    """Everything that a decision is made from. Two looks that find the same facts decide the same."""

    fingerprint: Fingerprint
    attempts: tuple[Attempt, ...] = ()
    looking: bool = False  # whether another look is at work, which may just be starting an attempt
    feed_faults: tuple[str, ...] = ()  # sentences
    new_rows: Mapping[str, int] = field(
        default_factory=dict
    )  # since the last success, where they are counted
    firings: int | None = None  # of the schedule since the last success; None without a schedule
    told: frozenset[str] = frozenset()  # causes of notices that were given before

    @property
    def successes(self) -> tuple[Attempt, ...]:
        """The attempts with a verdict, the newest last."""
        done = (attempt for attempt in self.attempts if attempt.state == "finished")
        return tuple(sorted(done, key=_sort_by_time))

    def newest(self) -> Attempt | None:
        """The attempt that was started last."""
        return max(self.attempts, key=_sort_by_time, default=None)


def limit_run(longest: float | None, estimated: float | None) -> float | None:
    """The seconds that a run may take, by the longest success and the plan; None if neither is known."""
    seconds = max((value for value in (longest, estimated) if value is not None), default=None)
    return None if seconds is None else min(max(_SHORTEST_LIMIT, _LIMIT_FACTOR * seconds), _LONGEST_LIMIT)


def find_limit(attempts: Iterable[Attempt], estimated: float | None = None) -> float | None:
    """The seconds that a run may take after these attempts; None before the first success."""
    longest = max((done.ended - done.began for done in attempts if done.state == "finished"), default=None)
    return None if longest is None else limit_run(longest, estimated)


def read_verdict(promotion: Mapping[str, Any]) -> Verdict:
    """The verdict in what the step `promote` has written."""
    return "promote" if promotion.get("action") == "promote" else "keep"


def add_verdict(attempt: Attempt, promotion: Mapping[str, Any] | None) -> Attempt:
    """An attempt whose steps have all ended, with what its promotion says; without one, it has failed."""
    if promotion is None:
        return replace(attempt, state="failed", cause="code", reason="no step wrote a promotion")
    reason = str(promotion.get("reason") or "")
    return replace(attempt, state="finished", verdict=read_verdict(promotion), reason=reason)


def _sort_by_time(attempt: Attempt) -> tuple[float, str]:
    return attempt.began, attempt.run
