"""Records behave as the standard library's dataclasses, which type checkers take them for."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from worldsize import records


def make(module: Any, **options: bool) -> type[Any]:
    @module.dataclass(**options)
    class Sample:
        """A sample."""

        first: int
        second: str = "two"
        third: list[int] = module.field(default_factory=list, compare=False)
        hidden: object = module.field(default=None, repr=False)

        def doubled(self) -> int:
            return self.first * 2

    return Sample


OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "order": True},
    {"slots": True, "eq": False},
]


def outcome(act: Callable[[], object]) -> object:
    try:
        return act()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_record_does_what_a_dataclass_does(options: dict[str, bool]) -> None:
    ours, theirs = make(records, **options), make(dataclasses, **options)

    def same(act: Callable[[type[Any]], object]) -> None:
        assert outcome(lambda: act(ours)) == outcome(lambda: act(theirs))

    same(lambda cls: repr(cls(1)).split("Sample")[-1])
    same(lambda cls: cls(1) == cls(1))
    same(lambda cls: cls(1) == cls(2))
    same(lambda cls: cls(1, third=[1]) == cls(1))
    same(lambda cls: cls(1) == object())
    same(lambda cls: hash(cls(1)) == hash(cls(1)))
    same(lambda cls: cls(1) < cls(2))
    same(lambda cls: cls(2) >= cls(2))
    same(lambda cls: min(cls(2), cls(1)).first)
    same(lambda cls: cls())
    same(lambda cls: cls(1, unknown=2))
    same(lambda cls: cls(1).doubled())
    same(lambda cls: setattr(cls(1), "first", 2))
    same(lambda cls: isinstance(outcome(lambda: setattr(cls(1), "other", 2)), type))
    same(lambda cls: delattr(cls(1), "first"))
    same(lambda cls: cls(1).third is cls(1).third)
    same(lambda cls: dataclasses.asdict(cls(1, hidden=3)))
    same(lambda cls: dataclasses.replace(cls(1), second="b").second)
    same(lambda cls: [each.name for each in dataclasses.fields(cls)])
    same(lambda cls: copy.copy(cls(1, "x")).second)
    same(lambda cls: copy.deepcopy(cls(1, "x", [4])).third)
    same(lambda cls: hasattr(cls(1), "__dict__"))
    same(lambda cls: cls.__match_args__)
    same(lambda cls: cls.__doc__)


def test_replace_and_fields_of_records() -> None:
    sample = make(records, frozen=True, slots=True)(1, third=[2])
    changed = records.replace(sample, first=3)
    assert (changed.first, changed.second, changed.third is sample.third) == (3, "two", True)
    assert [each.name for each in records.fields(sample)] == ["first", "second", "third", "hidden"]


@records.dataclass(frozen=True, slots=True)
class Pickled:
    """At the top level, where pickle finds it."""

    value: int


def test_frozen_records_survive_pickling() -> None:
    restored = pickle.loads(pickle.dumps(Pickled(3)))
    assert restored.value == 3
