from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from worldsize.spec import schema
from worldsize.spec.accept import _ANNOTATIONS, _JUDGES, accepts

PIPELINES = sorted((Path(__file__).parents[2] / "pipelines").glob("*.yml"))
SPECS = [pyyaml.safe_load(path.read_text(encoding="utf-8")) for path in PIPELINES]
FULL = {
    "name": "a",
    "compute": {"gpu": {"target": "azureml:gpu", "instance_type": "Standard_NC6", "max_instances": 2}},
    "steps": {
        "train": {
            "command": "python train.py",
            "environment": {"image": "ubuntu"},
            "distribution": {"type": "pytorch"},
            "parallelism": {"data": 1, "tensor": 2, "pipeline": 1},
            "outputs": {"model": "mlflow_model", "shards": {"type": "uri_folder"}},
            "scale": {
                "reference": {"batch_size": 32, "learning_rate": 0.05},
                "optimizer": "sgd",
                "epochs": 2,
            },
        }
    },
    "schedule": {"recurrence": {"frequency": "week", "interval": 1, "schedule": {"hours": 3, "minutes": 0}}},
}
JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 0.5, 1.0, math.nan, math.inf, 10**18, 10**400, "", "x", "azureml:a", "a\n",
    "linear", [], {}, [1], ["x"], {"a": 1}, {"type": "string"}, {1: 2}, {"uses": "x"},
]  # fmt: skip
junk = st.sampled_from(JUNK).map(copy.deepcopy)  # a later mutation may change what an earlier one put in


def judged(instance: Any) -> bool:
    return not list(schema._validator().iter_errors(instance))


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths(inner, (*path, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            found += paths(inner, (*path, position))
    return found


def words(part: Any) -> set[str]:
    """Keys and enumerated words of the schema: what a mutation should be made of."""
    if isinstance(part, dict):
        inner = set().union(*(words(value) for key, value in part.items() if key != "examples"), set())
        return (
            inner | set(part.get("properties", {})) | {w for w in part.get("enum", []) if isinstance(w, str)}
        )
    return set().union(*(words(item) for item in part), set()) if isinstance(part, list) else set()


WORDS = sorted(words(schema.load_schema()))[:400]


@pytest.mark.parametrize("spec", [*SPECS, FULL], ids=[*(path.stem for path in PIPELINES), "full"])
def test_right_specs_are_accepted_without_jsonschema(spec: Any) -> None:
    assert accepts(spec, schema.load_schema(), schema.load_schema())


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_whatever_is_accepted_has_no_violation(data: st.DataObject) -> None:
    spec = copy.deepcopy(data.draw(st.sampled_from([*SPECS, FULL])))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(paths(spec)))
        if not path:
            continue
        holder = spec
        for key in path[:-1]:
            holder = holder[key]
        change = data.draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "replace":
            holder[path[-1]] = data.draw(junk | st.sampled_from(WORDS))
        elif change == "remove":
            del holder[path[-1]]
        elif isinstance(holder, dict):
            holder[data.draw(st.sampled_from(WORDS))] = data.draw(junk | st.sampled_from(WORDS))
    if accepts(spec, schema.load_schema(), schema.load_schema()):
        assert judged(spec)


@pytest.mark.parametrize("value", [math.nan, True, "1", None, 1.5, {}, 0])
def test_doubtful_values_are_left_to_jsonschema(value: Any) -> None:
    spec = copy.deepcopy(FULL)
    spec["compute"]["gpu"]["max_instances"] = value  # type: ignore[index]
    assert not accepts(spec, schema.load_schema(), schema.load_schema())


def test_unknown_keywords_are_never_accepted() -> None:
    assert not accepts(1, {"multipleOf": 1}, {})


def keywords(part: Any, *, named: bool = False) -> set[str]:
    if isinstance(part, list):
        return set().union(*(keywords(item) for item in part), set())
    if not isinstance(part, dict):
        return set()
    own = set() if named else set(part)
    inner = (
        keywords(value, named=not named and key in ("properties", "$defs"))
        for key, value in part.items()
        if key not in ("examples", "dependentRequired", "enum", "required")
    )
    return own.union(*inner)


def test_every_keyword_of_the_schema_is_known() -> None:
    Draft202012Validator.check_schema(dict(schema.load_schema()))
    assert keywords(schema.load_schema()) <= _ANNOTATIONS | set(_JUDGES)
