"""Bounds only fall: compares those in ``test_architecture.py`` with the versions that were committed."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from itertools import pairwise

import checkout

FILE = "tests/repo/test_architecture.py"

Bounds = dict[str, int]
Raise = tuple[str, int, int | None]  # name, from, to; to None where the bound was removed


def find_unlisted(now: Bounds, listed: Collection[Raise]) -> list[Raise]:
    """The raises and removals up to now that are not listed, as far back as this checkout knows."""
    texts = checkout.read_versions(FILE)
    first = next((number for number, text in enumerate(texts) if _has_list(text)), len(texts))
    steps = [*pairwise([*map(read_bounds, texts[first:]), now])]
    main = checkout.read_version_of_main(FILE)
    if main is not None and _has_list(main):
        steps.append((read_bounds(main), now))
    return list(dict.fromkeys(each for before, after in steps for each in find_raises(before, after, listed)))


def _has_list(text: str) -> bool:
    """Whether a version of the file is of a time when raises had to be listed."""
    return re.search(r"^RAISED\b", text, re.MULTILINE) is not None


def read_bounds(text: str) -> Bounds:
    """The numbers in the table of a version of the file."""
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        table = getattr(node, "value", None)
        if isinstance(table, ast.Dict) and any(getattr(each, "id", None) == "BOUNDS" for each in targets):
            pairs = zip(table.keys, table.values, strict=True)
            return {
                key.value: value.value
                for key, value in pairs
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
            }
    return {}


def find_raises(before: Bounds, after: Bounds, listed: Collection[Raise]) -> list[Raise]:
    """The bounds that are above what they were before, or gone, and not listed."""
    found = ((name, old, after.get(name)) for name, old in before.items())
    return [each for each in found if not _is_allowed(each, listed)]


def _is_allowed(step: Raise, listed: Collection[Raise]) -> bool:
    """Whether a bound falls, or rises no higher than listed raises lead, one after the other."""
    name, old, new = step
    reached: list[int | None] = [old]
    for each in reached:  # it grows
        reached += [to for of, start, to in listed if (of, start) == (name, each) and to not in reached]
    if new is None:
        return None in reached
    return any(most is not None and new <= most for most in reached)
