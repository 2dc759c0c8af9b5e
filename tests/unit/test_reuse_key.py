"""The key of a step changes exactly when something changes that what it makes can depend on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.azureml.model import Component, Field, Step
from worldsize.base.span import Span
from worldsize.running.model.task import Task
from worldsize.running.reuse.step_cache import list_changed, make_key, make_parts

SPAN = Span("a.yml", 3, 4, 3, 9)


def task(**given: Any) -> Task:
    """A task; ``command`` and ``resources`` are its component's."""
    component = Component(
        path=None,
        type="command",
        name=None,
        version=None,
        inputs={},
        outputs={},
        command=Field(given.pop("command", "python train.py"), given.pop("span", None)),
        resources=given.pop("resources", None),
        display_name=given.pop("title", None),
    )
    return Task(**{"name": "train", "component": component, "folder": Path(), **given})


def key_of(made: Task, **given: Any) -> str:
    parts = {
        "code": "c0de",
        "inputs": {"epochs": [["text", "3"]]},
        "environment": {"mode": "current"},
        **given,
    }
    return make_key(make_parts(made, **parts))


MATTERS: dict[str, list[Any]] = {
    "command": ["python train.py", "python  train.py", ""],
    "launcher": ["none", "pytorch"],
    "instance_count": [1, 2],
    "process_count_per_instance": [1, 2],
    "worker_count": [None, 1, 2],
    "parameter_server_count": [0, 1],
    "gpus_per_process": [1, 2],
    "outputs": [{}, {"o": "uri_folder"}, {"o": "uri_file"}, {"p": "uri_folder"}],
    "environment_variables": [{}, {"A": "1"}, {"A": "2"}, {"B": "1"}],
    "resources": [None, Field({"instance_type": "a"}), Field({"instance_type": "b"})],
}
CHANGES_NOTHING: dict[str, list[Any]] = {
    "name": ["train", "again"],
    "display_name": [None, "Train"],
    "folder": [Path(), Path("elsewhere")],
    "timeout": [None, 60],
    "title": [None, Field("Train")],
    "span": [None, SPAN],
}
BESIDE: dict[str, list[Any]] = {
    "code": ["c0de", "c0df"],
    "inputs": [
        {"epochs": [["text", "3"]]},
        {"epochs": [["text", "4"]]},
        {"epochs": [["data", "", "3"]]},
        {"epochs": [["absent"]]},
        {"epochs": [["text", "3"], ["text", ""]]},
        {"other": [["text", "3"]]},
        {},
    ],
    "environment": [
        {"mode": "current"},
        {"mode": "isolated"},
        {"mode": "current", "definition": Field("azureml:x:1")},
    ],
}


def drawn(choices: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, int]]:
    """The number of a choice for each name."""
    return st.fixed_dictionaries({name: st.integers(0, len(each) - 1) for name, each in choices.items()})


def chosen(choices: dict[str, list[Any]], numbers: dict[str, int]) -> dict[str, Any]:
    return {name: choices[name][number] for name, number in numbers.items()}


Draw = tuple[dict[str, int], dict[str, int], dict[str, int]]
DRAWS = st.tuples(drawn(MATTERS), drawn(CHANGES_NOTHING), drawn(BESIDE))


@given(DRAWS, DRAWS)
def test_keys_are_equal_exactly_if_all_that_matters_is(one: Draw, other: Draw) -> None:
    keys = [
        key_of(task(**chosen(MATTERS, made), **chosen(CHANGES_NOTHING, idle)), **chosen(BESIDE, beside))
        for made, idle, beside in (one, other)
    ]
    assert (keys[0] == keys[1]) == ((one[0], one[2]) == (other[0], other[2]))


@pytest.mark.parametrize("name", [*MATTERS, *BESIDE])
def test_one_change_is_named(name: str) -> None:
    choices = {**MATTERS, **BESIDE}
    found = []
    for value in choices[name][:2]:
        beside = {each: BESIDE[each][0] for each in BESIDE}
        own = {name: value} if name in MATTERS else {}
        found.append(make_parts(task(**own), **(beside if own else {**beside, name: value})))
    changed = list_changed(found[0], found[1])
    assert changed == ["input `epochs`" if name == "inputs" else name]


def test_every_field_of_a_task_is_placed() -> None:
    known = {*MATTERS, *CHANGES_NOTHING, "component", "inputs", "kind", "step"}
    assert set(Task.__struct_fields__) <= known


@pytest.mark.parametrize("kind", ["sweep", "parallel"])
def test_all_settings_of_other_kinds_count(kind: str, tmp_path: Path) -> None:
    from worldsize.documents.yaml.load import load

    keys = []
    for number, text in enumerate(("limits: {max_total_trials: 3}", "limits: {max_total_trials: 4}")):
        path = tmp_path / f"{number}.yml"
        path.write_text(text)
        step = Step("train", kind, None, None, None, raw=load(path).root)
        keys.append(key_of(task(kind=kind, step=step)))
    assert keys[0] != keys[1]


def test_a_value_without_a_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object cannot be part"):
        key_of(task(), environment=object())


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text()
        | st.floats(allow_nan=False)
        | st.binary()
        | st.dates(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.frozensets(st.text())
        ),
        max_leaves=8,
    )
)
def test_the_order_of_a_mapping_does_not_matter(value: Any) -> None:
    one, other = {"a": value, "b": 1}, {"b": 1, "a": value}
    assert key_of(task(), environment=one) == key_of(task(), environment=other)
    assert key_of(task(), environment=one) != key_of(task(), environment=[value, 1])
