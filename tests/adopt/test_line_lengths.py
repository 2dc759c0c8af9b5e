"""Long lines of edits are wrapped as black wraps them, and mean the same."""

from __future__ import annotations

import ast

import pytest

from worldsize.adopting.source.script import LIMIT, wrap_lines

LONG = "name_of_thirty_letters_in_here"
SAMPLER = f"sampler=DistributedSampler({LONG}, drop_last=True)"
COMPREHENDS = f"a, b in {LONG}.items_of_something"


@pytest.mark.parametrize(
    ("line", "wrapped"),
    [
        (
            f"x = f({LONG}, {LONG}, {LONG})",
            f"x = f(\n    {LONG}, {LONG}, {LONG}\n)",
        ),
        (
            f"loader = DataLoader({LONG}, {SAMPLER}, b={LONG})",
            f"loader = DataLoader(\n    {LONG},\n    {SAMPLER},\n    b={LONG},\n)",
        ),
        (f"if f({LONG}, {LONG}, {LONG}):", f"if f(\n    {LONG}, {LONG}, {LONG}\n):"),
        (f"x = f([{LONG} for {COMPREHENDS}])", f"x = f(\n    [{LONG} for {COMPREHENDS}]\n)"),
        (f"x = f({LONG}, {LONG}, {LONG})  # why", f"x = f({LONG}, {LONG}, {LONG})  # why"),
        (f"x = f({LONG}, {LONG}, {LONG}) + 1", f"x = f({LONG}, {LONG}, {LONG}) + 1"),
        (f'x = f("{LONG})", "{LONG}", "{LONG}"', f'x = f("{LONG})", "{LONG}", "{LONG}"'),
    ],
)
def test_a_line_is_wrapped_at_its_last_bracket(line: str, wrapped: str) -> None:
    assert wrap_lines("x = 1\n", f"{line}\n", "    ") == f"{wrapped}\n"


@pytest.mark.parametrize(
    "line",
    [
        f"x = f([{LONG} for {LONG}, b in g({LONG}, {LONG}, {LONG})], lambda a, b: {LONG}, *{LONG}, **{LONG})",
        f"x = {{'a': [{LONG}, {LONG}, {LONG}, {LONG}], 'b': ({LONG}, {LONG})}}",
        f"x = f({LONG})[{LONG}, {LONG}:{LONG}, {LONG}]",
    ],
)
def test_what_is_wrapped_means_the_same(line: str) -> None:
    wrapped = wrap_lines("", line, "    ")
    assert ast.dump(ast.parse(wrapped)) == ast.dump(ast.parse(line))
    assert max(map(len, wrapped.splitlines())) <= LIMIT


def test_scripts_with_long_lines_and_their_own_lines_stay() -> None:
    line = f"x = f({LONG}, {LONG}, {LONG})\n"
    assert wrap_lines("#" * (LIMIT + 1), line, "    ") == line
    assert wrap_lines("x = 1\r\n", line.replace("\n", "\r\n"), "\t") == (
        f"x = f(\r\n\t{LONG}, {LONG}, {LONG}\r\n)\r\n"
    )
