"""Did you mean: matches a mistyped word against the words that exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from worldsize.base import limits
from worldsize.base.problem import Fix
from worldsize.base.span import Span


def closest(word: str, candidates: Collection[str]) -> str | None:
    """Find the known word that is most similar to ``word``; None if none is similar enough.

    Case is ignored, and ``-`` equals ``_``. An edit adds, drops or changes one character, or swaps two
    neighbours; a third of the word may be wrong. Among equally close words the first in the alphabet wins, so
    that the answer does not depend on their order.
    """
    near = list_similar(word, candidates)
    return near[0] if near else None


def list_similar(word: str, candidates: Collection[str]) -> list[str]:
    """All known words that are similar enough, the closest first."""
    if not limits.take_comparisons(len(candidates)):
        return []
    return [name for _, name in _rank_similar(word, tuple(sorted(candidates)))]


@lru_cache(maxsize=4096)  # generated files make the same mistake thousands of times
def _rank_similar(word: str, candidates: tuple[str, ...]) -> list[tuple[int, str]]:
    """The known words that are similar enough, each after its distance, the closest first."""
    target = _fold(word)
    limit = max(len(target) // 3, len(target) > 2)
    distances = [
        (edit_distance(target, folded, limit), name) for name, folded in _near(target, candidates, limit)
    ]
    return sorted(near for near in distances if near[0] <= limit)


def find_meant(word: str, candidates: Collection[str]) -> str | None:
    """The closest word; else the only one that ``word`` shortens or spells out: `lr` is `learning_rate`."""
    near = closest(word, candidates)
    if near is not None or not limits.take_comparisons(len(candidates)):
        return near
    target = _fold(word).strip("_")
    for is_short in (_begins, _is_initials):
        meant = [
            other
            for other in candidates
            if is_short(target, other) or is_short(_fold(other).strip("_"), word)
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


def did_you_mean(word: str, candidates: Collection[str]) -> str | None:
    """A ``help`` sentence: the word that is meant, else the list of all if it is short, else None."""
    meant = find_meant(word, candidates)
    if meant is not None:
        return f"did you mean `{meant}`?"
    if not 0 < len(candidates) <= 12:
        return None
    listed = ", ".join(f"`{name}`" for name in sorted(candidates))
    return f"{'write one of' if len(candidates) > 1 else 'there is only'} {listed}"


def fix_unambiguous(span: Span, word: str, candidates: Collection[str]) -> Fix | None:
    """The fix that writes the only known word that ``word`` can stand for; None if there is no such word.

    At most a quarter of the word may be wrong, and no other known word may be as close.
    """
    if not limits.take_comparisons(len(candidates)):
        return None
    near = _rank_similar(word, tuple(sorted(candidates)))
    length = len(_fold(word))
    if not near or near[0][0] > max(length // 4, length > 2) or (near[1:] and near[1][0] == near[0][0]):
        return None
    return fix_word(span, word, near[0][1])


def fix_word(span: Span, word: str, meant: str) -> Fix:
    """The fix of a word by one that is similar; it is safe only if the two differ in case and separators."""
    return Fix(span, meant, safe=_fold(word).replace("_", "") == _fold(meant).replace("_", ""))


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
