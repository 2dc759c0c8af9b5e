"""The champion of a model: one at every instant, whoever claims, is killed, or is answered with an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import pytest

from wschampion.champion import (
    CHAMPION,
    EVIDENCE,
    JOB,
    ROLLED_BACK,
    SINCE,
    UNTIL,
    PatientRegistry,
    Version,
    claim,
    find_champion,
    find_predecessor,
    roll_back,
    settle,
)
from wsshards.errors import UserError

NOW = datetime(2026, 3, 2, 3, tzinfo=timezone.utc)
Tags = dict[str, dict[str, str]]  # by version


@dataclass
class Memory:
    """A registry in memory; `order` is that in which its versions were registered."""

    tags: Tags = field(default_factory=dict)

    def versions(self, name: str) -> list[Version]:
        return [Version(v, dict(tags), float(v)) for v, tags in self.tags.items()]

    def set_tag(self, name: str, version: str, key: str, value: str) -> None:
        self.tags[version][key] = value

    def champion(self) -> str | None:
        champion = find_champion(self.versions("m"))
        return champion and champion.version

    def marked(self) -> list[str]:
        return [version for version, tags in self.tags.items() if tags.get(CHAMPION) == "true"]

    def only(self, names: Sequence[str]) -> Memory:
        return Memory({version: tags for version, tags in self.tags.items() if version in names or not names})

    def copy(self) -> Memory:
        return Memory({version: dict(tags) for version, tags in self.tags.items()})


def reign(count: int, versions: int = 0) -> Memory:
    """A registry whose champions were its first `count` versions, one after the other."""
    memory = Memory({str(n): {} for n in range(1, 1 + max(count, versions))})
    for n in range(1, count + 1):
        promoter(str(n), f"job{n}", str(n - 1) if n > 1 else None)(memory)
    return memory


class Paused(BaseException):
    """Stops a process at its next call, which it carries."""


Process = Callable[[Any], Any]
Call = tuple[str, ...]


@dataclass
class Replay:
    """Gives a process again what its calls returned, and stops it at the next one.

    A list of versions is read one by one where `torn`, as a registry with pages may answer.
    """

    results: Sequence[Any]
    names: tuple[str, ...]
    torn: bool
    made: int = 0

    def _call(self, *call: str) -> Any:
        if self.made == len(self.results):
            raise Paused(call)
        self.made += 1
        return self.results[self.made - 1]

    def versions(self, name: str) -> list[Version]:
        if not self.torn:
            return list(self._call("read").versions(name))
        return [v for n in self.names for v in self._call("read", n).versions(name) if v.version == n]

    def set_tag(self, name: str, version: str, key: str, value: str) -> None:
        self._call("set", version, key, value)


class Walk:
    """Every state that processes can reach in any order of their calls."""

    def __init__(self, start: Memory, processes: Sequence[Process], *, torn: bool = False) -> None:
        self.processes, self.names, self.torn = processes, tuple(start.tags), torn
        self.memories: list[Memory] = []
        self.numbers: dict[str, int] = {}  # of the memories
        self.calls: dict[tuple[int, tuple[int, ...]], Call | None] = {}
        self.start = self._number(start)

    def _number(self, memory: Memory) -> int:
        number = self.numbers.setdefault(repr(memory.tags), len(self.memories))
        if number == len(self.memories):
            self.memories.append(memory)
        return number

    def _next_call(self, process: int, history: tuple[int, ...]) -> Call | None:
        """What a process calls next; None where it ends."""
        if (process, history) not in self.calls:
            call = None
            try:
                results = [self.memories[number] for number in history]
                self.processes[process](Replay(results, self.names, self.torn))
            except Paused as paused:
                call = tuple(paused.args[0])
            except UserError:
                pass
            self.calls[process, history] = call
        return self.calls[process, history]

    def __iter__(self) -> Iterator[tuple[Memory, bool]]:
        """Each state of the registry, and whether all processes have ended."""
        first: tuple[int, tuple[tuple[int, ...], ...]] = (self.start, tuple(() for _ in self.processes))
        waiting, reached, shown = [first], {first}, set[tuple[int, bool]]()
        while waiting:
            number, histories = waiting.pop()
            calls = [self._next_call(n, history) for n, history in enumerate(histories)]
            if (state := (number, not any(calls))) not in shown:
                shown.add(state)
                yield self.memories[number].copy(), state[1]
            for n, call in enumerate(calls):
                if call is None:
                    continue
                after = number
                if call[0] == "set":
                    changed = self.memories[number].copy()
                    changed.set_tag("m", *call[1:])
                    after = self._number(changed)
                seen = self._number(self.memories[number].only(call[1:])) if call[0] == "read" else 0
                following = (after, (*histories[:n], (*histories[n], seen), *histories[n + 1 :]))
                if following not in reached:
                    reached.add(following)
                    waiting.append(following)


def promoter(version: str, job: str, predecessor: str | None) -> Process:
    return lambda registry: claim(
        registry, "m", version, evidence="better", job=job, predecessor=predecessor, now=NOW
    )


def test_the_first_claim_makes_a_champion_and_the_next_succeeds_it() -> None:
    memory = reign(2)
    assert memory.champion() == "2"
    assert memory.marked() == ["2"]
    assert memory.tags["1"][UNTIL] == memory.tags["2"][SINCE] == "2026-03-02T03:00:00Z"
    assert memory.tags["2"][EVIDENCE] == "better"
    assert not memory.tags["2"].get(UNTIL)


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("champions", [0, 1])
def test_two_promoters_in_any_order_leave_one_champion_at_every_instant(champions: int, torn: bool) -> None:
    start = reign(champions, champions + 2)
    former = str(champions) if champions else None
    first, second = str(champions + 1), str(champions + 2)
    promoters = [promoter(first, "b", former), promoter(second, "a", former)]
    ends = set()
    for memory, ended in Walk(start, promoters, torn=torn):
        champion = memory.champion()
        assert champion in {former, first, second}
        assert champion or not memory.marked()
        if ended:
            assert memory.marked() == [champion]
            ends.add(champion)
        # Whoever is killed here, the next to look leaves one mark, on the same version.
        later = memory.copy()
        assert (settle(later, "m", now=NOW) or start).version if champion else True
        assert later.marked() == ([champion] if champion else [])
        assert later.champion() == champion
    assert ends == {first, second}


def test_of_two_that_claim_at_once_the_lower_job_wins() -> None:
    for memory, ended in Walk(reign(1, 3), [promoter("2", "b", "1"), promoter("3", "a", "1")]):
        marked = memory.marked()
        if {"2", "3"} <= set(marked):
            assert memory.champion() == "3"
        if ended and memory.champion() == "2":  # the other came when it was decided
            assert memory.tags["3"].get(CHAMPION) != "true"
            assert not memory.tags["3"].get(UNTIL)


def test_a_rollback_beside_a_promoter_leaves_one_champion() -> None:
    start = reign(2, 3)
    ends = set()
    for memory, ended in Walk(start, [promoter("3", "a", "2"), lambda r: roll_back(r, "m", now=NOW)]):
        assert memory.champion() in {"1", "2", "3"}
        if ended:
            assert memory.marked() == [memory.champion()]
            ends.add(memory.champion())
        done = memory.copy()
        roll_back(done, "m", "1", now=NOW)
        assert done.marked() == ["1"]
    assert ends == {"1", "2", "3"}  # "2" where the rollback came last


@dataclass
class Slept(Memory):
    """What a job sees that read the versions, slept, and goes on after others have changed them."""

    old: Memory = field(default_factory=Memory)
    instants: list[str | None] = field(default_factory=list)

    def versions(self, name: str) -> list[Version]:
        return (super() if CHAMPION in self.instants else self.old).versions(name)

    def set_tag(self, name: str, version: str, key: str, value: str) -> None:
        super().set_tag(name, version, key, value)
        self.instants += [self.champion(), key]

    def champion(self) -> str | None:
        champion = find_champion(super().versions("m"))
        return champion and champion.version


def test_a_job_that_slept_and_clears_what_is_the_champion_again_leaves_a_champion() -> None:
    old = reign(3)
    old.tags["2"][CHAMPION] = "true"  # the third job slept before it cleared the second
    now = old.copy()
    roll_back(now, "m", "2", now=NOW)
    slept = Slept(now.tags, old)
    winner = promoter("3", "job3", "2")(slept)
    assert winner is not None
    assert winner.version == "2"
    assert slept.instants == ["2", UNTIL, "2", CHAMPION, "2", CHAMPION, "2", UNTIL]
    assert slept.marked() == ["2"]


class Failing(Memory):
    """Answers one call with an error, before or after it has done what it should."""

    def __init__(self, tags: Tags, failing: set[int], *, done: bool) -> None:
        super().__init__(tags)
        self.failing, self.done, self.calls = failing, done, 0

    def _fail(self, done: bool) -> None:
        if self.calls in self.failing and done is self.done:
            raise OSError("409 Conflict" if self.calls % 2 else "500 Internal Server Error")

    def versions(self, name: str) -> list[Version]:
        self.calls += 1
        self._fail(self.done)
        return super().versions(name)

    def set_tag(self, name: str, version: str, key: str, value: str) -> None:
        self.calls += 1
        self._fail(False)
        super().set_tag(name, version, key, value)
        self._fail(True)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("number", range(1, 16))
def test_a_call_that_fails_once_is_repeated(number: int, done: bool) -> None:
    registry = Failing(reign(1, 2).tags, {number}, done=done)
    pauses: list[float] = []
    winner = claim(
        PatientRegistry(registry, pauses.append),
        "m",
        "2",
        evidence="better",
        job="job2",
        predecessor="1",
        now=NOW,
    )
    assert winner is not None
    assert winner.version == "2"
    assert registry.marked() == ["2"]
    assert pauses == ([0.5] if number < registry.calls else [])


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("number", range(1, 12))
def test_a_registry_that_fails_for_good_keeps_one_champion(number: int, done: bool) -> None:
    registry = Failing(reign(1, 2).tags, set(range(number, 99)), done=done)
    with pytest.raises(OSError, match=r"409|500"):
        claim(
            PatientRegistry(registry, lambda _: None),
            "m",
            "2",
            evidence="better",
            job="job2",
            predecessor="1",
            now=NOW,
        )
    registry.failing = set()
    assert registry.champion() in {"1", "2"}
    winner = promoter("2", "job2", "1")(registry)
    assert winner is not None
    assert winner.version == "2"
    assert registry.marked() == ["2"]


def test_a_claim_against_another_champion_changes_nothing() -> None:
    memory = reign(2, 3)
    before = memory.copy()
    winner = promoter("3", "job3", "1")(memory)
    assert winner is not None
    assert winner.version == "2"
    assert memory == before
    winner = promoter("3", "job3", None)(memory)
    assert winner is not None
    assert winner.version == "2"


def test_a_claim_repeated_by_a_restarted_job_completes_it() -> None:
    memory = reign(2)
    memory.tags["1"][CHAMPION] = "true"  # killed before it cleared the predecessor
    winner = promoter("2", "job2", "1")(memory)
    assert winner is not None
    assert winner.version == "2"
    assert memory.marked() == ["2"]


def test_a_version_that_was_rolled_back_from_is_not_promoted_again() -> None:
    memory = reign(3)
    assert roll_back(memory, "m", now=NOW).version == "2"
    assert memory.tags["3"][ROLLED_BACK] == "2026-03-02T03:00:00Z"
    assert memory.tags["2"][EVIDENCE] == "by hand, in place of version 3"
    assert memory.tags["2"][JOB] == ""
    winner = promoter("3", "job9", "2")(memory)
    assert winner is not None
    assert winner.version == "2"
    assert memory.marked() == ["2"]


def test_a_version_that_is_champion_again_keeps_when_it_was_before() -> None:
    memory = reign(2)
    roll_back(memory, "m", now=NOW)
    assert memory.tags["1"]["champion_reign_1"] == "2026-03-02T03:00:00Z to 2026-03-02T03:00:00Z: better"
    assert memory.tags["1"][EVIDENCE] == "by hand, in place of version 2"


def test_rollbacks_go_back_in_time() -> None:
    memory = reign(4)
    assert [roll_back(memory, "m").version for _ in range(3)] == ["3", "2", "1"]
    with pytest.raises(UserError, match="`m` has no champion before version 1"):
        roll_back(memory, "m")
    memory = reign(4)
    assert roll_back(memory, "m", "1").version == "1"
    assert [v for v, tags in memory.tags.items() if tags.get(ROLLED_BACK)] == ["2", "3", "4"]
    assert roll_back(memory, "m", "4").version == "4"  # a mistake, undone by hand
    assert not memory.tags["4"][ROLLED_BACK]
    assert find_predecessor(memory.versions("m")).version == "1"  # type: ignore[union-attr]


def test_rollback_to_the_champion_changes_nothing() -> None:
    memory = reign(2)
    before = memory.copy()
    assert roll_back(memory, "m", "2").version == "2"
    assert memory == before


def test_a_rollback_killed_anywhere_is_completed_by_the_next() -> None:
    for memory, _ in Walk(reign(3), [lambda r: roll_back(r, "m", "2", now=NOW)]):
        assert memory.champion() in {"2", "3"}
        roll_back(memory, "m", "2", now=NOW)
        assert memory.marked() == ["2"]
        assert memory.tags["3"][ROLLED_BACK]


def test_a_champion_that_is_deleted_gives_way_to_the_one_before() -> None:
    memory = reign(3)
    del memory.tags["3"]
    assert memory.champion() == "2"
    promoter("1", "job4", "2")(memory)
    assert memory.marked() == ["1"]


@pytest.mark.parametrize(
    ("version", "sentence"),
    [("9", "`m` has no version `9`"), (None, "`m` has no champion yet")],
)
def test_rollback_to_what_is_not_there(version: str | None, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        roll_back(Memory({"1": {}}), "m", version)
    with pytest.raises(UserError, match="there is no model `m`"):
        roll_back(Memory(), "m", version)


def test_tags_written_by_hand_do_not_confuse() -> None:
    memory = reign(1, 3)
    memory.tags["2"] |= {CHAMPION: "true", "champion_term": "many"}
    memory.tags["3"] |= {CHAMPION: "yes"}
    assert memory.champion() == "1"
    only = Memory({"1": {CHAMPION: "true"}, "2": {}})
    assert only.champion() == "1"
    promoter("2", "job", "1")(only)
    assert only.marked() == ["2"]
