"""Did you mean: matches a mistyped word against the words that exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from worldsize.base import limits
from worldsize.base.problem import Fix
from worldsize.base.span import Span


def closest(word: str, candidates: Iterable[str], *, but: str | None = None) -> str | None:
    """Find the known word, except ``but``, that is most similar to ``word``; None if none is similar enough.

    Case is ignored, and ``-`` equals ``_``. An edit adds, drops or changes one character, or swaps two
    neighbours; a third of the word may be wrong. Among equally close words the first in the alphabet wins, so
    that the answer does not depend on their order.
    """
    names = candidates if isinstance(candidates, Collection) else list(candidates)
    if not limits.take_comparisons(len(names)):
        return None
    return _closest(word, tuple(sorted([name for name in names if name != but])))


@lru_cache(maxsize=4096)  # generated files make the same mistake thousands of times
def _closest(word: str, candidates: tuple[str, ...]) -> str | None:
    target = _fold(word)
    best = None
    limit = max(len(target) // 3, len(target) > 2)
    for candidate, folded in _near(target, candidates, limit):
        distance = edit_distance(target, folded, limit)
        if distance <= limit:
            best, limit = candidate, distance - 1  # only a closer one is better
    return best


def find_meant(word: str, candidates: Iterable[str], *, but: str | None = None) -> str | None:
    """The closest word; else the only one that ``word`` shortens or spells out: `lr` is `learning_rate`."""
    names = candidates if isinstance(candidates, Collection) else list(candidates)
    near = closest(word, names, but=but)
    if near is not None or not limits.take_comparisons(len(names)):
        return near
    target = _fold(word).strip("_")
    others = [name for name in names if name != but]
    for is_short in (_begins, _is_initials):
        meant = [
            other for other in others if is_short(target, other) or is_short(_fold(other).strip("_"), word)
        ]
        if len(meant) == 1:
            return meant[0]
    return None


def _begins(short: str, long: str) -> bool:
    """Whether a word begins another. One letter less is a typo, which :func:`closest` handles."""
    whole = _fold(long).strip("_")
    return 1 < len(short) < len(whole) - 1 and whole.startswith(short)


def _is_initials(short: str, long: str) -> bool:
    words = [part for part in _fold(long).split("_") if part]
    return len(words) > 1 and short == "".join(part[0] for part in words)


def did_you_mean(word: str, candidates: Iterable[str], *, but: str | None = None) -> str | None:
    """A ``help`` sentence: the word that is meant, else the list of all if it is short, else None."""
    names = candidates if isinstance(candidates, Collection) else list(candidates)
    meant = find_meant(word, names, but=but)
    if meant is not None:
        return f"did you mean `{meant}`?"
    listed = sorted(name for name in names if name != but) if len(names) <= 13 else []
    if 0 < len(listed) <= 12:
        return ("write one of " if len(listed) > 1 else "there is only ") + ", ".join(
            f"`{name}`" for name in listed
        )
    return None


def closest_unambiguous(word: str, candidates: Iterable[str]) -> str | None:
    """Find the only known word that ``word`` can stand for, which a fix may write without asking.

    At most a quarter of the word may be wrong, and no other known word may be as close.
    """
    names = candidates if isinstance(candidates, Collection) else list(candidates)
    return _surely(word, tuple(sorted(names))) if limits.take_comparisons(len(names)) else None


def fix_word(span: Span, word: str, meant: str) -> Fix:
    """The fix of a word by one that is similar; it is safe only if the two differ in case and separators."""
    return Fix(span, meant, safe=_fold(word).replace("_", "") == _fold(meant).replace("_", ""))


@lru_cache(maxsize=4096)
def _surely(word: str, candidates: tuple[str, ...]) -> str | None:
    target = _fold(word)
    limit = max(len(target) // 4, len(target) > 2)
    distances = sorted(
        (distance, candidate)
        for candidate, folded in _near(target, candidates, limit)
        if (distance := edit_distance(target, folded, limit)) <= limit
    )
    if not distances or (len(distances) > 1 and distances[0][0] == distances[1][0]):
        return None
    return distances[0][1]


def _near(target: str, candidates: tuple[str, ...], limit: int) -> Iterator[tuple[str, str]]:
    """The known words that can be within the limit, each with its folded form: an edit fixes one letter."""
    letters = frozenset(target)
    for candidate, folded, candidate_letters in _folded(candidates):
        if (
            abs(len(folded) - len(target)) <= limit
            and len(letters - candidate_letters) <= limit
            and len(candidate_letters - letters) <= limit
        ):
            yield candidate, folded


@lru_cache(maxsize=256)
def _folded(candidates: tuple[str, ...]) -> tuple[tuple[str, str, frozenset[str]], ...]:
    return tuple((word, folded := _fold(word), frozenset(folded)) for word in candidates)


@lru_cache(maxsize=65536)
def edit_distance(left: str, right: str, limit: int) -> int:
    """The optimal-string-alignment distance, cut off above ``limit`` (any larger number then).

    Source: Damerau, "A technique for computer detection and correction of spelling errors", 1964.
    """
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, first in enumerate(left, 1):
        current = [i]
        for j, second in enumerate(right, 1):
            cost = min(row[j] + 1, current[j - 1] + 1, row[j - 1] + (first != second))
            if i > 1 and j > 1 and first == right[j - 2] and left[i - 2] == second:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before, row = row, current
    return row[-1]


def _fold(word: str) -> str:
    return word[:200].lower().replace("-", "_").replace(" ", "_")
