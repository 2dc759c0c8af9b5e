"""Texts on which a regular expression takes quadratic time, if it can: made from its own parts, and timed.

Each repetition of a pattern is pumped: what leads to it once and its body many times, both many times, every
character that it knows many times, and then something that makes the match fail. What backtracks needs a
thousand times longer than what does not, so a busy machine cannot blur the two.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

try:
    from re import _constants as constants  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as constants
    import sre_parse as parser

LENGTH = 1_500  # characters of an attack: quadratic work is millions of steps, which no processor does soon
SOON = 0.0003  # processor seconds in which most linear matches of that length are over, on any machine
GROWTH = 24  # times the work for a text eight times as long: linear work gives 8, quadratic 64
SEARCHES = ("search", "finditer", "findall", "sub", "subn", "split")
_CLASSES = {
    constants.CATEGORY_DIGIT: "0",
    constants.CATEGORY_NOT_DIGIT: "a",
    constants.CATEGORY_SPACE: " ",
    constants.CATEGORY_NOT_SPACE: "a",
    constants.CATEGORY_WORD: "a",
    constants.CATEGORY_NOT_WORD: "-",
}
_COMMON = " \na-"
_ENDS = ("", "\0")


def slow_text(pattern: re.Pattern[str], method: str) -> str | None:
    """A short description of a text on which the method takes more than linear time, or None."""
    for attack in attacks(pattern.pattern, pattern.flags):
        begun = time.perf_counter()  # far cheaper to read than the processor's time
        _apply(pattern, method, _text(*attack, LENGTH))
        if time.perf_counter() - begun > SOON and _grows(pattern, method, attack):
            lead, pump, end = attack
            return f"{lead!r} + {pump!r} * n + {end!r}"
    return None


def attacks(pattern: str, flags: int) -> Iterator[tuple[str, str, str]]:
    """What leads in, what is repeated, and what follows."""
    tree = parser.parse(pattern, flags & ~re.UNICODE)
    places = list(dict.fromkeys(_repeats(tree, "")))
    if not places:
        return
    pumps = [("", letter) for letter in [*_letters(tree), *_COMMON]]
    for lead, body, letters in places:
        pumps += [(lead, body), ("", lead + body), (lead, lead + body)]
        for letter in letters[:3]:
            pumps += [(lead, letter), (lead, body + letter), ("", lead + letter)]
    for lead, pump in dict.fromkeys(pumps):
        if pump:
            for end in _ENDS:
                yield lead, pump, end


def _text(lead: str, pump: str, end: str, length: int) -> str:
    return lead + pump * (length // len(pump)) + end


def _grows(pattern: re.Pattern[str], method: str, attack: tuple[str, str, str]) -> bool:
    short = min(_seconds(pattern, method, _text(*attack, LENGTH)) for _ in range(3))
    if short <= SOON or short > 50 * SOON:
        return short > SOON  # no linear match takes 50 times that long
    text = _text(*attack, 8 * LENGTH)
    return all(_seconds(pattern, method, text) > GROWTH * short for _ in range(3))


def _seconds(pattern: re.Pattern[str], method: str, text: str) -> float:
    begun = time.thread_time()
    _apply(pattern, method, text)
    return time.thread_time() - begun


def _apply(pattern: re.Pattern[str], method: str, text: str) -> None:
    subject: Any = text if isinstance(pattern.pattern, str) else text.encode("utf-8", "replace")
    if method in SEARCHES:
        for _ in pattern.finditer(subject):
            pass
    else:
        getattr(pattern, method)(subject)


def _repeats(tree: object, lead: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The shortest text before each repetition, its body, and the characters that the body tells apart."""
    for operation, argument in tree:  # type: ignore[attr-defined]
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            _, high, body = argument
            if high == constants.MAXREPEAT or high > 50:
                letters = tuple(dict.fromkeys(_letters(body)))
                for word in dict.fromkeys([_example(body), *_alternatives(body)]):
                    yield lead, word, letters
            yield from _repeats(body, lead)
        else:
            for inner in _inside(operation, argument):
                yield from _repeats(inner, lead)
        lead += _example([(operation, argument)])


def _alternatives(body: object) -> Iterator[str]:
    for operation, argument in body:  # type: ignore[attr-defined]
        if operation is constants.BRANCH:
            yield from (_example(branch) for branch in argument[1])
        elif operation is constants.SUBPATTERN:
            yield from _alternatives(argument[3])


def _inside(operation: object, argument: object) -> list[object]:
    if operation is constants.SUBPATTERN:
        return [argument[3]]  # type: ignore[index]
    if operation is constants.BRANCH:
        return list(argument[1])  # type: ignore[index]
    if operation in (constants.ASSERT, constants.ASSERT_NOT):
        return [argument[1]]  # type: ignore[index]
    return []


def _example(tree: object) -> str:
    """A short text that matches, assertions aside."""
    parts = []
    for operation, argument in tree:  # type: ignore[attr-defined]
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            parts.append(_example(argument[2]) * min(int(argument[0]), 100))
        elif operation is constants.BRANCH:
            parts.append(_example(argument[1][0]))
        elif operation is constants.SUBPATTERN:
            parts.append(_example(argument[3]))
        else:
            parts.append(next(iter(_of(operation, argument)), ""))
    return "".join(parts)


def _letters(tree: object) -> Iterator[str]:
    """Characters that the pattern tells apart."""
    for operation, argument in tree:  # type: ignore[attr-defined]
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            yield from _letters(argument[2])
        else:
            yield from _of(operation, argument)
            for inner in _inside(operation, argument):
                yield from _letters(inner)


def _of(operation: object, argument: object) -> list[str]:
    if operation is constants.LITERAL:
        return [chr(argument)]  # type: ignore[arg-type]
    if operation in (constants.NOT_LITERAL, constants.ANY):
        return ["b"]
    if operation is constants.IN:
        return _of_set(argument)
    return []


def _of_set(members: object) -> list[str]:
    found: list[str] = []
    negated = False
    for operation, argument in members:  # type: ignore[attr-defined]
        if operation is constants.NEGATE:
            negated = True
        elif operation is constants.LITERAL:
            found.append(chr(argument))
        elif operation is constants.RANGE:
            found += [chr(argument[0]), chr(argument[1])]
        elif operation is constants.CATEGORY:
            found.append(_CLASSES.get(argument, "a"))
    if negated:
        free = [letter for letter in "b0- \n" if letter not in found]
        return [*free[:1], *found]
    return found
