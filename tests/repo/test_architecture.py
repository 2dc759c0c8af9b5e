"""The architecture does not get worse: each measure of ``architecture.py`` has a bound."""

from __future__ import annotations

import architecture
import pytest

# The most that the compiler may have of each. Lower a bound when its measure falls.
BOUNDS = {
    "files": 901,
    "lines": 107_800,
    "small modules": 128,
    "edges between packages": 188,
    "packages in knots": 0,
    "edges in running": 42,
    "parts of running in knots": 0,
    "back imports": 0,
    "rules without logic": 0,
    "pages above one a rule": 0,
    "functions called of": 0,
    "noqa": 118,
    "libraries for YAML": 2,  # PyYAML reads as Azure ML does, ruamel.yaml writes for people
}


def test_every_measure_has_a_bound() -> None:
    assert architecture.measure().keys() == BOUNDS.keys()


@pytest.mark.parametrize("name", BOUNDS)
def test_no_measure_is_above_its_bound(name: str) -> None:
    assert architecture.measure()[name] <= BOUNDS[name], "see `python tests/repo/architecture.py`"


def test_ruamel_is_imported_where_yaml_is_written_only() -> None:
    assert architecture.yaml_libraries()["ruamel"] == ["azureml.yaml_dump"]


def test_the_guide_shows_the_packages_of_today() -> None:
    text = architecture.PAGE.read_text(encoding="utf-8")
    assert architecture.picture() in text, "write it with `make picture`"


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d"}}, [["a", "b", "c"], ["d", "e"]]),
    ],
)
def test_a_knot_is_found(graph: dict[str, set[str]], expected: list[list[str]]) -> None:
    assert architecture.knots(graph) == expected
