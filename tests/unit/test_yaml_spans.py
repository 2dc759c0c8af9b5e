from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize.documents.yaml import Mapping, Node, Scalar, Sequence, load


def slice_of(node: Node) -> str:
    return node.source.text[node.start : node.end]


def value(text: str, key: str = "k") -> Scalar:
    document = load("x.yml", text)
    assert isinstance(document.root, Mapping), document.problems
    node = document.root.get(key)
    assert isinstance(node, Scalar)
    return node


def test_spans_exclude_anchor_tag_and_trailing_space() -> None:
    text = "a: &x  word   # c\nb: !!str &y 'q'\nc: &m\n  k: v\n\n\nd: &s [1, 2] \ne: |\n  block\n\n\nf: *m\n"
    root = load("x.yml", text).root
    assert isinstance(root, Mapping)
    assert {key.text: slice_of(node) for key, node in root.items() if key.text != "f"} == {
        "a": "word",
        "b": "'q'",
        "c": "k: v",
        "d": "[1, 2]",
        "e": "|\n  block",
    }


def test_a_span_ends_behind_the_text() -> None:
    node = value("k: word")
    assert (node.span.line, node.span.column, node.span.end_line, node.span.end_column) == (1, 4, 1, 8)


def test_block_collections_end_with_their_last_value() -> None:
    root = load("x.yml", "a:\n  - 1\n  -\nb:\n  c:\n\n# end\n").root
    assert isinstance(root, Mapping)
    assert [slice_of(node) for _, node in root.items()] == ["- 1\n  -", "c:"]


SUBSPANS = [
    "k: python train.py --lr 0.1 end",
    "k: 'it''s --lr here'",
    'k: "tab\\t --lr \\u00e9 end"',
    'k: "joined \\\n   --lr over"',
    "k: plain\n  over --lr\n\n  lines\n",
    "k: 'single\n  over --lr\n\n\n  lines'\n",
    'k: "double\n  over --lr\n\n  lines"\n',
    "k: |\n  first\n    indented --lr\n\n  last\n",
    "k: |2\n    two extra\n  --lr\n",
    "k: |-\n\n\n  late --lr\n",
    "k: >\n  folded\n  text --lr\n\n  para\n    more\n  end\n",
    "k: >-\n  a\r\n  --lr\r\n  b\r\n",
    "k: | # comment\n  --lr\n",
    "k: &a !!str |\n  --lr\n",
]


@pytest.mark.parametrize("text", SUBSPANS)
def test_a_flag_is_found_inside_a_command(text: str) -> None:
    node = value(text)
    start = node.text.index("--lr")
    span = node.subspan(start, start + 4)
    source = node.source
    found = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    assert found == "--lr"


def test_an_escape_is_one_piece() -> None:
    node = value('k: "a\\u00e9b"')
    span = node.subspan(1, 2)
    assert (span.column, span.end_column) == (6, 12)


def test_out_of_range_falls_back_to_the_whole_scalar() -> None:
    node = value("k: word")
    assert node.subspan(2, 99) == node.span
    assert node.subspan(4, 4).column == 8
    assert value("k: ''").subspan(0, 1) == value("k: ''").span


letters = st.text(st.sampled_from("ab-1 \n\t'\"\\é漢😀:#${}"), min_size=1, max_size=60)


@settings(max_examples=150)
@given(letters, st.sampled_from([None, "'", '"', "|", ">"]), st.integers(10, 60), st.booleans())
def test_visible_characters_map_to_themselves(
    text: str, style: str | None, width: int, unicode: bool
) -> None:
    document = pyyaml.safe_dump({"k": text}, default_style=style, width=width, allow_unicode=unicode)
    loaded = load("x.yml", document)
    assert isinstance(loaded.root, Mapping)
    node = next(value for key, value in loaded.root.items())
    assert isinstance(node, Scalar)
    assert node.text == text
    for position, character in enumerate(text):
        span = node.subspan(position, position + 1)
        if character.isalnum() and character.isascii():
            source = node.source
            start = source.offset(span.line, span.column)
            assert source.text[start : source.offset(span.end_line, span.end_column)] == character


@given(
    st.recursive(letters, lambda inner: st.lists(inner) | st.dictionaries(letters, inner), max_leaves=12),
    st.booleans(),
)
def test_every_scalar_slice_reads_back(tree: object, flow: bool) -> None:
    document = load("x.yml", pyyaml.safe_dump(tree, default_flow_style=flow, allow_unicode=True))
    assert document.root is not None
    check_slices(document.root)


def check_slices(node: Node) -> None:
    if isinstance(node, Sequence):
        for item in node.items:
            check_slices(item)
    elif isinstance(node, Mapping):
        for key, child in node.items():
            check_slices(key)
            check_slices(child)
    elif node.style in ("'", '"') or "\n" not in slice_of(node):
        assert pyyaml.safe_load(slice_of(node) or "''") == node.value


def test_a_long_command_is_traced_in_linear_work(calls: Callable[[Callable[[], object]], int]) -> None:
    def work(lines: int) -> int:
        node = value("k: |\n" + "".join(f"  echo {i} --flag value\n" for i in range(lines)) + "  --lr 0.1\n")
        position = node.text.index("--lr")
        assert node.subspan(position, position + 4).line == lines + 2
        return calls(lambda: node.subspan(position, position + 4))

    assert work(9_000) < 11 * work(900) + 1000
