from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wsmodels.model_name import choose_model_name
from wsshards.errors import UserError

SOURCE = Path(__file__).parents[2] / "components" / "register" / "src"


def _load(name: str) -> Any:
    import sys

    spec = importlib.util.spec_from_file_location(f"register_{name}", SOURCE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


gate = _load("gate")
tags = _load("tags")

METRICS = {"accuracy": 0.961, "loss": 0.2, "f1_cats and dogs": 1.0}


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("", []),
        (" ; ", []),
        ("accuracy >= 0.961", []),
        ("accuracy>0.961", ["accuracy is 0.961, and the gate requires > 0.961"]),
        (
            "accuracy >= 0.97; loss < 0.2",
            ["accuracy is 0.961, and the gate requires >= 0.97", "loss is 0.2, and the gate requires < 0.2"],
        ),
        ("loss <= 2e-1\naccuracy == 0.961", []),
        ("f1_cats and dogs >= 1", []),
        ("loss == 1", ["loss is 0.2, and the gate requires == 1"]),
    ],
)
def test_gate(text: str, failed: list[str]) -> None:
    assert gate.shortfalls(gate.parse_gate(text), METRICS) == failed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("accuracy", "`accuracy` in the gate is not a condition"),
        ("accuracy => 1", "`accuracy => 1` in the gate is not a condition"),
        (">= 1", "`>= 1` in the gate is not a condition"),
        ("accuracy >= high", "`high` in the gate is not a number"),
        ("0.5 < accuracy < 1", "is not a condition"),
        ("loss < nan", "compares with nan"),
    ],
)
def test_gate_that_is_none(text: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        gate.parse_gate(text)
    assert says in caught.value.message
    assert caught.value.help


def test_unknown_metric_names_those_there_are() -> None:
    with pytest.raises(UserError) as caught:
        gate.shortfalls(gate.parse_gate("acuracy > 1"), METRICS)
    assert caught.value.message == "the gate asks for `acuracy`, which was not measured"
    assert caught.value.help == "did you mean `accuracy`?"
    with pytest.raises(UserError) as caught:
        gate.shortfalls(gate.parse_gate("bleu > 1"), METRICS)
    assert caught.value.help == "measured were `accuracy`, `loss`, `f1_cats and dogs`"


@given(st.floats(allow_nan=False), st.sampled_from([">=", ">", "<=", "<", "=="]), st.floats(allow_nan=False))
def test_gate_compares_as_python_does(value: float, operator: str, bound: float) -> None:
    passes = eval(f"value {operator} bound", {"value": value, "bound": bound})
    conditions = gate.parse_gate(f"m {operator} {bound!r}")
    assert (gate.shortfalls(conditions, {"m": value}) == []) is passes


@given(st.text())
def test_any_text_is_a_gate_or_a_user_error(text: str) -> None:
    try:
        gate.parse_gate(text)
    except UserError:
        return


@pytest.mark.parametrize("content", ["", "[]", '{"a": "b"}', '{"a": true}', "{"])
def test_bad_metrics(tmp_path: Path, content: str) -> None:
    (tmp_path / "metrics.json").write_text(content)
    with pytest.raises(UserError):
        gate.read_metrics(str(tmp_path))


def test_missing_metrics(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no `metrics.json`"):
        gate.read_metrics(str(tmp_path))
    (tmp_path / "metrics.json").write_text(json.dumps({"a": 1}))
    assert gate.read_metrics(str(tmp_path)) == {"a": 1.0}


def test_tags_carry_plan_metrics_commit_and_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDSIZE_SOURCE_COMMIT", "fallback")
    card = {
        "metadata": {
            "worldsize": {"world_size": 8, "learning_rate": 0.4, "final": {"loss": 0.25, "note": None}}
        }
    }
    made = tags.version_tags(card, {"accuracy": 0.98}, {}, "accuracy >= 0.97", "team = vision; a=b=c")
    assert made == {
        "worldsize.world_size": "8",
        "worldsize.learning_rate": "0.4",
        "worldsize.final.loss": "0.25",
        "metric.accuracy": "0.98",
        "source.commit": "fallback",
        "gate": "accuracy >= 0.97",
        "team": "vision",
        "a": "b=c",
    }
    for name in ("mlflow.source.git.commit", "azureml.git.commit"):
        assert tags.version_tags({}, {}, {name: "abc"}, "", "")["source.commit"] == "abc"
    with pytest.raises(UserError, match="tag `oops` is not `name=value`"):
        tags.version_tags({}, {}, {}, "", "oops")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"source": "builtin:digits", "model": "cnn"}, "digits-cnn"),
        ({"source": "flowers/small.csv", "model": "nets/wide.py:build"}, "small-wide"),
        ({"source": ".", "model": "mlp"}, "mlp"),
        ({"source": "my data (1)", "model": "hf:tiny"}, "my-data-1-hf"),
        ({"source": "é", "model": None}, "model"),
        (None, "model"),
        ("text", "model"),
    ],
)
def test_a_name_is_made_of_data_and_network(facts: Any, expected: str) -> None:
    assert choose_model_name("", {"metadata": {"worldsize": facts}}) == expected
    assert choose_model_name("mine", {}) == "mine"
    assert choose_model_name("", {}) == "model"


@pytest.mark.parametrize("given_name", [" ", "a/b", "a:1"])
def test_a_name_that_no_registry_takes(given_name: str) -> None:
    with pytest.raises(UserError, match="model name"):
        choose_model_name(given_name, {})
