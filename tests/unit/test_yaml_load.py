from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize.base import limits
from worldsize.documents.yaml import Mapping, Scalar, Sequence, load, to_python
from worldsize.documents.yaml import compose as compose_module
from worldsize.documents.yaml.nodes import find_node, list_entries, list_items, list_scalars


def slugs(text: str | bytes) -> list[str]:
    return [problem.slug for problem in load("x.yml", text).problems]


def place(text: str) -> tuple[int, int, str]:
    (problem,) = load("x.yml", text).problems
    return problem.span.line, problem.span.column, problem.message


DOCUMENTS = [
    "a: 1\nb: [1, 2, {c: d}]\n",
    "yes: no\noff: on\n2: one\n1.5: x\n~: null\n",
    "i: [010, 0o10, 0x1F, 0b11, 1_000, 1:30, -1:30, 190:20:30, +12, 0, -0]",
    "f: [1e-3, 1.0e-3, .5, 1., 1_0.5, 190:20:30.15, .inf, -.INF, 6.8523015e+5]",
    "d: [2024-01-01, 2001-12-14t21:59:43.10-05:00, 2001-12-14 21:59:43.10 +5:30, 2001-12-15T02:59:43Z]",
    "m: &m {a: 1, b: 2}\nn: {<<: *m, b: 3}\no: {<<: [{a: 5}, *m], z: 1}\n",
    "s: |\n  literal\n    more\n\n  end\nt: >-\n  folded\n  text\n\n  new\nu: |+\n  keep\n\n",
    "q: 'it''s'\nr: \"tab\\t\\u00e9\\\n  joined\"\np: plain\n  over lines\n",
    "x: !!str 12\ny: !!int '12'\nz: !!float 1\nb: !!bool 'yes'\nn: !!null ''\nd: !!binary aGk=\n! 12: 3\n",
    "- - a\n  - b\n- {}\n- []\n-\n",
    "a: &x [1, 2]\nb: *x\nc: *x\n",
    "? complex\n: value\n",
    "--- # comment\na: b\n...\n",
    '"<<": 1\n',
    "plain text",
    "a: 100%\n=: 1\n",
    "! '12': ! \"12\"\n",
]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_values_are_those_of_pyyaml(text: str) -> None:
    document = load("x.yml", text)
    assert document.problems == []
    assert document.root is not None
    assert repr(to_python(document.root)) == repr(pyyaml.safe_load(text))


@pytest.mark.parametrize("text", DOCUMENTS)
def test_pure_python_parser_gives_the_same_tree(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = load("x.yml", text)
    monkeypatch.setattr(compose_module, "_LOADER", pyyaml.SafeLoader)
    slow = load("x.yml", text)
    assert slow.problems == fast.problems
    assert spans(slow.root) == spans(fast.root)


def test_nodes_are_found_below_others_and_none_in_what_is_not_as_asked() -> None:
    root = load("x.yml", "a: {b: [1, &x two, *x]}\nc: three\n").root
    items = find_node(root, "a", "b")
    assert [item.text for item in list_items(items) if isinstance(item, Scalar)] == ["1", "two", "two"]
    assert [key.text for key, _ in list_entries(root)] == ["a", "c"]
    assert [scalar.text for scalar in list_scalars(root)] == ["a", "b", "1", "two", "c", "three"]
    assert find_node(root, "c", "b") is find_node(root, "b") is find_node(None, "a") is None
    assert list_items(root) == list_entries(items) == list(list_scalars(None)) == []


def spans(node: object) -> object:
    if isinstance(node, Scalar):
        return (node.start, node.end, node.text, node.value, node.style)
    if isinstance(node, Sequence):
        return (node.start, node.end, [spans(item) for item in node.items])
    assert isinstance(node, Mapping)
    return (node.start, node.end, [(spans(key), spans(value)) for key, value in node.entries])


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.dates()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=25,
)


@settings(max_examples=100)
@given(plain_values, st.booleans(), st.sampled_from([None, "'", '"', "|", ">"]), st.integers(20, 100))
def test_random_documents_read_as_pyyaml_reads_them(
    value: object, flow: bool, style: str, width: int
) -> None:
    text = pyyaml.safe_dump(
        value, default_flow_style=flow, default_style=style, allow_unicode=True, width=width, sort_keys=False
    )
    document = load("x.yml", text)
    assert document.problems == []
    assert document.root is not None
    assert to_python(document.root) == pyyaml.safe_load(text)


words = st.text(st.sampled_from("ab0 1:-._#'\"\\\n\t{}[]&*!|>%@`,?=<~éλ漢😀\r\x85\u2028"), max_size=60)


@settings(max_examples=500)
@given(words)
def test_any_text_is_read_as_pyyaml_does_or_refused(text: str) -> None:
    document = load("x.yml", text)
    try:
        expected = pyyaml.load(text, Loader=pyyaml.CSafeLoader)
    except Exception:
        assert document.problems
        return
    if document.root is None:
        assert document.problems
    else:
        assert repr(to_python(document.root)) == repr(expected)


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_document(data: bytes) -> None:
    document = load("x.yml", data)
    assert document.root is not None or document.problems
    for problem in document.problems:
        assert problem.span.line >= 1
        assert problem.message[0].islower() or problem.message[0] == "`"


def test_a_repeated_key_names_both_places_and_keeps_the_last() -> None:
    document = load("x.yml", "epochs: 1\nname: a\nepochs: 2\n")
    (problem,) = document.problems
    assert (problem.slug, problem.span.line, problem.related[0].span.line) == ("yaml-duplicate-key", 3, 1)
    assert document.root is not None
    assert to_python(document.root) == {"epochs": 2, "name": "a"}


def test_keys_are_equal_when_their_values_are() -> None:
    assert "as `yes`" in place("yes: 1\ntrue: 2\n")[2]
    assert slugs("1: a\n'1': b\n") == []


def test_merging_is_not_repeating() -> None:
    assert slugs("a: &a {x: 1}\nb: {<<: *a, x: 2}\n") == []


@pytest.mark.parametrize(
    ("text", "slug", "line", "column"),
    [
        ("a: b: c\n", "yaml-syntax", 1, 5),
        ("a:\n\t- 1\n", "yaml-syntax", 2, 1),
        ("a: *y\n", "yaml-syntax", 1, 4),
        ("a: 1\n--- \nb: 2\n", "yaml-syntax", 2, 1),
        ("a: 2024-13-45\n", "yaml-syntax", 1, 4),
        ("{{x}}: 1\n", "yaml-syntax", 1, 1),
        ("a: !secret x\n", "yaml-syntax", 1, 12),
        ("<<: 3\n", "yaml-syntax", 1, 5),
        ("a: &a [*a]\n", "yaml-alias-bomb", 1, 8),
        ("a: \x07\n", "yaml-not-text", 1, 4),
        ("", "yaml-empty", 1, 1),
        ("# only a comment\n", "yaml-empty", 1, 1),
    ],
)
def test_faults_have_one_problem_and_a_place(text: str, slug: str, line: int, column: int) -> None:
    document = load("x.yml", text)
    assert [(p.slug, p.span.line, p.span.column) for p in document.problems] == [(slug, line, column)]
    assert document.root is None
    assert document.problems[0].help


def test_bytes_that_are_not_utf8_point_at_the_byte() -> None:
    (problem,) = load("x.yml", "é: 1\nb: ".encode() + b"\xff\n").problems
    assert (problem.slug, problem.span.line, problem.span.column) == ("yaml-not-text", 2, 4)
    assert "0xFF" in problem.message
    assert slugs("a: 1".encode("utf-16")) == ["yaml-not-text"]


def test_a_byte_order_mark_is_not_a_column() -> None:
    document = load("x.yml", "\ufeffa: 1".encode())
    assert isinstance(document.root, Mapping)
    key = document.root.key("a")
    assert key is not None
    assert key.span.column == 1


def test_depth_is_bounded_in_every_style() -> None:
    assert slugs("[" * 100_000) == ["yaml-too-deep"]
    assert slugs("\n".join("  " * level + "a:" for level in range(300))) == ["yaml-too-deep"]
    assert slugs("- " * 50_000) == ["yaml-too-deep"]
    nested = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 150))
    assert slugs(nested) == ["yaml-too-deep"]


def test_alias_bombs_are_refused_before_they_expand() -> None:
    laughs = "a0: &a0 [lol, lol]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
    )
    assert slugs(laughs) == ["yaml-alias-bomb"]
    merges = "a0: &a0 {" + ", ".join(f"k{i}: 1" for i in range(1000)) + "}\n"
    merges += "".join(f"a{i}: {{<<: *a0}}\n" for i in range(1, 100))
    assert slugs(merges) == ["yaml-alias-bomb"]


def test_node_count_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NODES", 100)
    assert slugs("[" + "1," * 200 + "]") == ["yaml-too-large"]


def test_long_numbers_cost_no_time() -> None:
    assert slugs("a: " + "9" * 100_000) == ["yaml-syntax"]
    assert slugs("a: 1" + ":59" * 300_000) == ["yaml-syntax"]


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [p.slug for p in load(tmp_path / "none.yml").problems] == ["yaml-unreadable"]
    assert [p.slug for p in load(tmp_path).problems] == ["yaml-unreadable"]
    assert [p.slug for p in load("bad\0name.yml").problems] == ["yaml-unreadable"]
    loop = tmp_path / "loop.yml"
    loop.symlink_to(loop)
    assert [p.slug for p in load(loop).problems] == ["yaml-unreadable"]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.yml")
        assert [p.slug for p in load(tmp_path / "pipe.yml").problems] == ["yaml-unreadable"]
    monkeypatch.setattr(limits, "SIZE", 10)
    (tmp_path / "big.yml").write_text("a: 1\n" * 10)
    assert [p.slug for p in load(tmp_path / "big.yml").problems] == ["yaml-too-large"]


def test_comments_are_found_outside_scalars_only() -> None:
    text = "# top\na: 'x # no' # yes\nb: | # header\n  # content\n  more\nc: a#b\n# end"
    found = [(c.span.line, c.text, c.own_line) for c in load("x.yml", text).comments]
    assert found == [(1, "# top", True), (2, "# yes", False), (3, "# header", False), (7, "# end", True)]


def test_thousands_of_nodes_are_linear(calls: Callable[[Callable[[], object]], int]) -> None:
    def work(count: int) -> int:
        step = "  s{}:\n    type: command\n    inputs: {{a: 1, b: x}}\n    command: echo\n"
        text = "jobs:\n" + "".join(step.format(i) for i in range(count))
        return calls(lambda: load("x.yml", text))

    assert work(1_000) < 5.5 * work(200)  # steps of several nodes each
