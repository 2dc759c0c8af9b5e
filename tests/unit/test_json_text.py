"""JSON as nodes with places: what it reads is what ``json`` reads, what it refuses is refused there too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.base.source import Source
from worldsize.documents import yaml
from worldsize.documents.yaml import json_text
from worldsize.documents.yaml.nodes import Mapping, Scalar


def read(text: str) -> tuple[Any, list[tuple[str, str]]]:
    root, faults = json_text.read_json(Source("ds.json", text))
    value = None if root is None else yaml.to_python(root)
    return value, [(fault.kind, text[fault.start : fault.end]) for fault in faults]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(values, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_it_reads_all_json(value: Any, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read(text) == (json.loads(text), [])


@given(st.text(alphabet='{}[]",:1e-.tru \n/*#\\a', max_size=24))
def test_it_refuses_what_json_refuses(text: str) -> None:
    value, faults = read(text)
    try:
        wanted = json.loads(text)
    except ValueError:
        assert faults
    else:
        assert value == wanted
        assert {kind for kind, _ in faults} <= {"duplicate"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": True}', ("syntax", "True")),
        ("{'a': 1}", ("syntax", "'")),
        ('{"a": 1 "b": 2}', ("syntax", "1")),
        ('{"a": [1, 2}', ("syntax", "[")),
        ('{"a": 1', ("syntax", "{")),
        ('{"a": .5}', ("syntax", ".5")),
        ('{"a" 1}', ("syntax", '"a"')),
        ('{"a": "x}', ("syntax", '"x}')),
        ("{} {}", ("syntax", "{")),
        ("", ("syntax", "")),
        ('{"a": 1,}', ("lenient", ",")),
        ('{"a": 1} // b', ("lenient", "// b")),
        ('/* a\nb */ {"a": 1}', ("lenient", "/* a")),
        ('{"a": 1, "a": 2}', ("duplicate", '"a"')),
    ],
)
def test_each_fault_has_its_place(text: str, fault: tuple[str, str]) -> None:
    assert read(text)[1] == [fault]


def test_depth_is_bounded() -> None:
    assert read("[" * 5000)[1] == [("syntax", "[")]


def test_numbers_are_numbers_and_know_their_place() -> None:
    root, _ = json_text.read_json(Source("ds.json", '{\n\t"lr": 1e-3,\n\t"n": 010}'.replace("010", "10")))
    assert isinstance(root, Mapping)
    rate, count = root.get("lr"), root.get("n")
    assert isinstance(rate, Scalar)
    assert isinstance(count, Scalar)
    assert (rate.value, str(rate.span)) == (0.001, "ds.json:2:8")
    assert (count.value, str(count.span)) == (10, "ds.json:3:7")
