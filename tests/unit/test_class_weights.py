"""Weights of classes: how they are written, and what follows from the training rows."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from wsshards.errors import UserError
from wstrain.class_weights import class_weights, describe_weights, weigh_classes
from wstrain.run_facts import training_identity
from wstrain.settings import Settings, parse_settings

LABELS = np.repeat([0, 1, 2], [6, 3, 1])
NAMES = ("no", "yes", "a, b: c")


def read(text: str) -> Settings:
    given = {"shards": "s", "checkpoints": "c", "trained_model": "m", "class_weights": text}
    arguments = [part for name, value in given.items() for part in (f"--{name}", value)]
    return parse_settings(arguments, started=1, strategies=("ddp",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", "none"),
        ("balanced", "balanced"),
        ("{yes: 5, no: 0.5}", {"yes": 5.0, "no": 0.5}),
        ("{'yes':5}", {"yes": 5.0}),
        ("{1: 5}", {"1": 5.0}),
        ('{"a, b: c": 2}', {"a, b: c": 2.0}),
        ("{a:b: 2}", {"a:b": 2.0}),
    ],
)
def test_weights_are_read_as_they_are_written(text: str, expected: object) -> None:
    assert class_weights(text) == expected
    assert read(text).class_weights == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{yes: 0}", "the weight of `yes` is `0`, and must be above 0"),
        ("{yes: -1}", "the weight of `yes` is `-1`"),
        ("{yes: much}", "the weight of `yes` is `much`"),
        ("{yes: inf}", "must be above 0"),
        ('{"yes": true}', "must be above 0"),
        ("{yes: 1, yes: 2}", "`yes` has two weights"),
        ("{}", "`{}` is neither none nor balanced"),
        ("{yes}", "is neither none nor balanced"),
        ("balance", "`balance` is neither none nor balanced"),
    ],
)
def test_weights_that_cannot_be_are_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        class_weights(text)
    assert message in str(refused.value)
    with pytest.raises(UserError, match="input class_weights"):
        read(text)


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    weights = weigh_classes("balanced", NAMES, LABELS)
    assert weights == pytest.approx([10 / 18, 10 / 9, 10 / 3])
    assert weigh_classes("none", NAMES, LABELS) == ()


@pytest.mark.parametrize("written", ["balanced", {"yes": 5.0}, {"0": 0.1, "a, b: c": 7.0}])
def test_the_mean_weight_of_the_training_rows_is_one(written: str | dict[str, float]) -> None:
    weights = np.array(weigh_classes(written, NAMES, LABELS))
    assert weights[LABELS].mean() == pytest.approx(1, rel=1e-12)


def test_a_class_that_is_not_named_has_the_weight_one_before_the_mean_is_made_one() -> None:
    no, yes, other = weigh_classes({"1": 5.0}, NAMES, LABELS)
    assert no == other
    assert yes / no == pytest.approx(5)


def test_classes_that_there_are_not_are_refused() -> None:
    with pytest.raises(UserError, match=r"names `maybe`, which is not one of the 3 classes"):
        weigh_classes({"maybe": 2.0}, NAMES, LABELS)
    with pytest.raises(UserError, match="names `3`, which is not one of"):
        weigh_classes({"3": 2.0}, NAMES, LABELS)
    with pytest.raises(UserError, match="two weights for the class `yes`, one by `yes`"):
        weigh_classes({"yes": 2.0, "1": 3.0}, NAMES, LABELS)
    with pytest.raises(UserError, match="no training row has the class `a, b: c`"):
        weigh_classes("balanced", NAMES, LABELS[:9])
    assert weigh_classes({"yes": 2.0}, NAMES, LABELS[:9])[1] > 1


def test_weights_belong_to_the_identity_of_a_training() -> None:
    names = ("model", "task", "source", "rows", "seed", "global_batch_size", "optimizer")
    names = (*names, "freeze", "layer_learning_rate_decay", "lora_rank", "lora_alpha", "lora_targets")

    def identity(text: str) -> object:
        facts = {**dict.fromkeys(names), "class_weights": describe_weights(class_weights(text))}
        return training_identity(read(text), facts)["class_weights"]

    assert identity("none") is None  # as in checkpoints of versions that had no such input
    assert identity("balanced") == "balanced"
    assert identity("{yes: 5, no: 1}") == identity('{"no": 1.0, "yes": 5}') != identity("{yes: 4}")
