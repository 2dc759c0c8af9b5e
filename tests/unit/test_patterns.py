"""A pattern that is compiled later does what one does that was compiled at once."""

from __future__ import annotations

import re

import pytest

from worldsize.base.patterns import compile_later

TEXT = "one 1, two 22"


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("match", (TEXT,)),
        ("fullmatch", ("ONE",)),
        ("search", (TEXT, 4)),
        ("findall", (TEXT,)),
        ("split", (TEXT, 1)),
        ("sub", ("-", TEXT)),
        ("subn", ("-", TEXT)),
    ],
)
def test_every_method_answers_alike(method: str, arguments: tuple[object, ...]) -> None:
    late, now = compile_later("[a-z]+", re.IGNORECASE), re.compile("[a-z]+", re.IGNORECASE)
    for _ in range(2):  # the first call compiles
        assert _plain(getattr(late, method)(*arguments)) == _plain(getattr(now, method)(*arguments))
    assert (late.pattern, late.flags) == (now.pattern, now.flags)


def _plain(answer: object) -> object:
    return answer.span() if isinstance(answer, re.Match) else answer


def test_nothing_is_compiled_before_the_first_use() -> None:
    broken = compile_later("(")
    with pytest.raises(re.error):
        broken.search("")
