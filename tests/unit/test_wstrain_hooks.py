"""Functions in the file of a user's model, and options that do not go together; no framework takes part."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsshards.errors import UserError
from wstrain.data.sample_spec import make_sample_spec
from wstrain.hooks import Hooks, load_hooks, warn_unless_mean
from wstrain.option_checks import expect_options_fit, expect_task_fits
from wstrain.settings import Settings, parse_settings
from wstrain.user_code import MODULE
from wstrain.validator import MeasuredBlock, OwnMeasures

NEEDED = ["--shards", "s", "--checkpoints", "c", "--trained_model", "m"]


def settings(**values: object) -> Settings:
    parsed = parse_settings(NEEDED, started=1, strategies=("ddp",))
    return replace(parsed, **values)  # type: ignore[arg-type]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write_and_load(source: str) -> Hooks | None:
        monkeypatch.delitem(sys.modules, MODULE, raising=False)
        (tmp_path / "net.py").write_text(f"def build(): ...\n{source}\n")
        return load_hooks("net.py:build")

    yield write_and_load
    sys.modules.pop(MODULE, None)


def test_hooks_are_functions_of_these_names_and_nothing_else(load: Any) -> None:
    assert load("") is None
    assert load("loss = None\nimport json as metrics\nclass prepare: ...") is None
    assert load_hooks("cnn") is None
    hooks = load("def loss(outputs, targets, scale=1): ...\nprepare = lambda inputs: inputs + 1")
    assert hooks.loss is not None
    assert hooks.metrics is None
    assert not hooks.is_random
    assert hooks.call_prepare(1, "generator") == 2
    assert load("def prepare(inputs, generator): return generator").call_prepare(1, 7) == 7


@pytest.mark.parametrize(
    "source",
    [
        "def loss(outputs): ...",
        "def metrics(a, b, c): ...",
        "def prepare(): ...",
        "def loss(a, b, *, c): ...",
    ],
)
def test_a_hook_with_other_parameters_is_refused(load: Any, source: str) -> None:
    with pytest.raises(UserError, match="cannot be called as") as caught:
        load(source)
    assert "rename it if it is not meant as a hook" in str(caught.value.help)


def test_a_failing_hook_names_the_users_line(load: Any) -> None:
    hooks = load("def loss(outputs, targets):\n    return outputs / 0")
    with pytest.raises(UserError, match="raised ZeroDivisionError") as caught:
        hooks.call("loss", 1, 1)
    assert caught.value.help == "look at net.py, line 3"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("3.0", "returned `float`, not a dictionary of numbers by name"),
        ('{"a b": 1}', "returned the name 'a b'"),
        ('{"accuracy": 1}', "returned `accuracy`, which every training of this task has"),
        ('{"mine": "x"}', "returned 'x' for `mine`, which is not a number"),
    ],
)
def test_metrics_must_be_numbers_by_new_names(load: Any, returned: str, message: str) -> None:
    hooks = load(f"def metrics(outputs, targets): return {returned}")
    with pytest.raises(UserError) as caught:
        hooks.call_metrics(np.zeros(1), np.zeros(1), "classification")
    assert message in caught.value.message


def test_own_measures_do_not_depend_on_which_rank_had_a_block() -> None:
    seen: list[list[int]] = []

    def metrics(outputs: Any, targets: Any) -> dict[str, float]:
        seen.append(outputs[:, 0].tolist())
        return {"sum": float(outputs.sum() + targets.sum())}

    hooks = Hooks("net.py", loss=len, metrics=metrics)
    blocks = [
        MeasuredBlock(number, rows, 0.1 * number, np.full((rows, 1), number), np.ones(rows))
        for number, rows in enumerate((3, 3, 2))
    ]
    ranks = []
    for part in (blocks[1:], blocks[:1]):
        own = OwnMeasures(hooks, "regression")
        for block in part:
            own.add(block)
        ranks.append(own.blocks)
    values = own.compute(ranks)
    assert values == own.compute(ranks[::-1])
    assert values["loss"] == pytest.approx((0.1 * 3 + 0.2 * 2) / 8)
    assert seen[0] == seen[1] == [0, 0, 0, 1, 1, 1, 2, 2]


def test_a_sum_over_samples_is_warned_of_and_a_mean_is_not(recwarn: pytest.WarningsRecorder) -> None:
    hooks = Hooks("net.py")
    warn_unless_mean(hooks, 4, 1.0, (0.5, 1.5))
    warn_unless_mean(hooks, 4, float("nan"), (float("nan"), 1.0))
    assert not recwarn
    with pytest.warns(UserWarning, match="it is not a mean over samples"):
        warn_unless_mean(hooks, 4, 2.0, (0.5, 1.5))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"optimizer": "lamb", "strategy": "fsdp"}, "`optimizer: lamb` needs the norm of whole layers"),
        ({"optimizer": "lars", "strategy": "deepspeed"}, "`optimizer: lars` needs the norm of whole layers"),
        (
            {"optimizer": "lars", "strategy": "horovod", "options": {"reduction": "adasum"}},
            "`optimizer: lars` needs averaged gradients",
        ),
        ({"compile": True, "strategy": "tensor_parallel"}, "`compile` is not supported with"),
        ({"ema_decay": 0.9, "strategy": "parameter_server"}, "`ema_decay` is not supported with"),
    ],
)
def test_options_that_a_strategy_lacks_are_refused(given: dict[str, Any], message: str) -> None:
    expect_options_fit(settings())
    with pytest.raises(UserError, match=message):
        expect_options_fit(settings(**given))


def test_options_that_a_task_lacks_are_refused() -> None:
    numbers = make_sample_spec("regression", (3,), "float32", 1)
    classes = make_sample_spec("classification", (3,), "float32", 3)
    text = make_sample_spec("language_model", (9,), "uint8", 256)
    labels = make_sample_spec("multi_label", (3,), "float32", 3)
    smooth, mixed = settings(label_smoothing=0.1), settings(mixup_alpha=0.2)
    weighted, named = settings(class_weights="balanced"), settings(class_weights={"yes": 5.0})
    fitting_pairs = (
        (smooth, classes),
        (smooth, text),
        (mixed, numbers),
        (mixed, classes),
        (weighted, classes),
    )
    for fitting, task in fitting_pairs:
        expect_task_fits(fitting, task, None)
    with pytest.raises(UserError, match="the task regression has no cross-entropy"):
        expect_task_fits(smooth, numbers, None)
    with pytest.raises(UserError, match="the samples are tokens"):
        expect_task_fits(mixed, text, None)
    with pytest.raises(UserError, match="replaces the loss"):
        expect_task_fits(smooth, classes, Hooks("net.py", loss=len))
    for task in (numbers, labels, text):
        with pytest.raises(UserError, match=f"`class_weights` is balanced, but in the task {task.name}"):
            expect_task_fits(weighted, task, None)
    with pytest.raises(
        UserError, match=r'`class_weights` is \{"yes": 5.0\}, but `loss` in `net.py` replaces'
    ):
        expect_task_fits(named, classes, Hooks("net.py", loss=len))
    with pytest.raises(UserError, match="the scores of every token"):
        expect_task_fits(settings(), text, Hooks("net.py", metrics=len))
