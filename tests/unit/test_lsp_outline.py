"""The outline and the cursor: places in YAML that need not be valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from worldsize.base.source import Source
from worldsize.documents import yaml
from worldsize.lsp.completion import find_cursor
from worldsize.lsp.outline import read_outline
from worldsize.lsp.positions import Positions, find_difference

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(ROOT.glob("pipelines/*.yml"))


def paths_of(node: yaml.Node, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """The paths of all values below a node."""
    if isinstance(node, yaml.Mapping):
        pairs: list[tuple[str | int, yaml.Node]] = [(key.text, value) for key, value in node.items()]
    elif isinstance(node, yaml.Sequence):
        pairs = list(enumerate(node.items))
    else:
        return set()
    return {each for name, value in pairs for each in {(*path, name)} | paths_of(value, (*path, name))}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_outline_of_a_valid_file_has_its_keys(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    root = yaml.load(path, text).root
    assert root is not None
    keys = {each for each in paths_of(root) if isinstance(each[-1], str)}
    if ": *" in text:  # the keys below an alias stand elsewhere
        keys = {each for each in keys if "environment" not in each[:-1]}
    outline = read_outline(text)
    assert keys <= outline.entries.keys()
    for key in keys:
        entry = outline.entries[key]
        assert str(key[-1]) in text[entry.key_start : entry.key_end]


@pytest.mark.parametrize(
    ("text", "kind", "path", "typed"),
    [
        ("a@", "key", (), "a"),
        ("a: @", "value", ("a",), ""),
        ("a: b@", "value", ("a",), "b"),
        ("a:\n  @", "key", ("a",), ""),
        ("a:\n  b@\n  c: 1", "key", ("a",), "b"),
        ("a:\n  b:\n    c: 1\n  d@", "key", ("a",), "d"),
        ("a: {b: 1, @}", "key", ("a",), ""),
        ("a: {b: @}", "value", ("a", "b"), ""),
        ("a: {b: [1, x@", "value", ("a", "b", 1), "x"),
        ("a: {b: {c: 1}, d@", "key", ("a",), "d"),
        ("a:\n- b: 1\n  c@", "key", ("a", 0), "c"),
        ("a:\n- b: 1\n- c@", "key", ("a", 1), "c"),
        ("a:\n  - b: 1\n    c: @", "value", ("a", 0, "c"), ""),
        ("a: ${{parent.@", "value", ("a",), "parent."),
        ('a: {b: "${{ pl@', "value", ("a", "b"), "pl"),
        ("a: |\n  echo ${{inputs.@", "value", ("a",), "inputs."),
        ("a: {b: 1\nc:\n  d@", "key", ("c",), "d"),
        ("a: 'x@", "value", ("a",), "x"),
        ("a: 1  # note @", "comment", (), "# note "),
        ("a: &x\n  b: 1\nc: *x\nd@", "key", (), "d"),
        ('"a b": {"c d": @', "value", ("a b", "c d"), ""),
    ],
)
def test_the_cursor_knows_what_is_typed(
    text: str, kind: str, path: tuple[str | int, ...], typed: str
) -> None:
    offset = text.index("@")
    cursor = find_cursor(text.replace("@", "", 1), offset)
    assert (cursor.kind, cursor.path, cursor.typed) == (kind, path, typed)


@pytest.mark.parametrize("path", SHIPPED[:4], ids=lambda path: path.name)
def test_the_cursor_never_fails(path: Path) -> None:
    text = path.read_text(encoding="utf-8")[:1500]
    for offset in range(0, len(text), 7):
        find_cursor(text[:offset], offset)
        find_cursor(text, offset)
        read_outline(text[offset:])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "part", ["[", "a: {", "- ", "a: b\n", "{a: 1, ", ":", "a: |\n b\n", "'", "# ", "${{"]
)
def test_the_outline_of_a_large_text_takes_linear_time(part: str) -> None:
    read_outline(part * (60_000 // len(part)))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_positions_come_back(encoding: str) -> None:
    positions = Positions(encoding)
    source = Source("a", "é 世😀x\r\n\n😀\u2028y\rz")
    for offset in range(len(source.text) + 1):
        if source.text[offset : offset + 1] != "\n":
            assert positions.to_offset(source, positions.to_position(source, offset)) == offset
    assert positions.to_offset(source, types.Position(0, 999)) == source.text.index("\r")
    assert positions.to_offset(source, types.Position(99, 0)) == len(source.text)


@pytest.mark.parametrize(
    ("before", "after"), [("abc", "axc"), ("", "a"), ("aa", "a"), ("aa", "aaa"), ("x", "x")]
)
def test_the_difference_turns_one_text_into_the_other(before: str, after: str) -> None:
    start, end, new = find_difference(before, after)
    assert before[:start] + new + before[end:] == after
