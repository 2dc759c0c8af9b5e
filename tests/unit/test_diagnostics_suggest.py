from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.azureml.references import closest_path
from worldsize.base.suggest import closest, did_you_mean, edit_distance, find_meant

KEYS = ["instance_count", "instance_type", "learning_rate", "process_count_per_instance", "uses"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("instance_cuont", "instance_count"),
        ("Learning-Rate", "learning_rate"),
        ("process_count_per_node", "process_count_per_instance"),
        ("warmup", None),
        ("use", "uses"),
        ("x", None),
        ("", None),
    ],
)
def test_the_word_that_was_meant(word: str, meant: str | None) -> None:
    assert closest(word, KEYS) == meant


def test_ties_do_not_depend_on_order() -> None:
    assert closest("aab", ["aac", "aad"]) == closest("aab", ["aad", "aac"]) == "aac"


def test_a_short_list_is_shown_where_nothing_is_near() -> None:
    assert did_you_mean("zzzzzz", ["b", "a"]) == "write one of `a`, `b`"
    assert did_you_mean("instance_cuont", KEYS) == "did you mean `instance_count`?"
    assert did_you_mean("zzzzzz", []) is None


words = st.text("abc", max_size=8)


@given(words, words)
def test_distance_is_symmetric_and_bounded(left: str, right: str) -> None:
    distance = edit_distance(left, right, 99)
    assert distance == edit_distance(right, left, 99)
    assert abs(len(left) - len(right)) <= distance <= max(len(left), len(right))
    assert (distance == 0) == (left == right)
    assert min(edit_distance(left, right, 2), 3) == min(distance, 3)


def test_a_swap_is_one_edit() -> None:
    assert edit_distance("ab", "ba", 5) == 1


def test_endless_words_cost_no_time() -> None:
    assert closest("a" * 10_000_000, ["a" * 1000]) in {None, "a" * 1000}


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("./a/cnda.yml", "./a/conda.yaml"),  # the spelling of the suffix is free
        ("a/environment.yml", None),  # not the folder `environment_files`
        ("a/envronment_files", "a/environment_files"),
        ("a/tran.py", "a/train.py"),
        ("a/train.sh", None),  # a script of another kind
        ("a/rows.cvs", "a/rows.csv"),
        ("a/jobs.yml", None),  # the file that names it
    ],
)
def test_a_path_is_suggested_only_where_it_is_of_the_kind_asked_for(
    text: str, near: str | None, tmp_path: Path
) -> None:
    (tmp_path / "a/environment_files").mkdir(parents=True)
    for name in ("conda.yaml", "train.py", "rows.csv", "job.yml"):
        (tmp_path / "a" / name).touch()
    assert closest_path(text, tmp_path / text, str(tmp_path / "a/job.yml")) == near


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("--lrate", ["--lr", "--epochs"], "--lr"),
        ("--lr", ["--learning-rate", "--epochs"], "--learning-rate"),
        ("learning_rate", ["lr", "epochs"], "lr"),
        ("bs", ["batch_size", "epochs"], "batch_size"),
        ("--batchsize", ["--batch-size", "--batch-limit"], "--batch-size"),
        ("--batch_size", ["--batch-size"], "--batch-size"),
        ("--epoch", ["--epochs", "--epoch-limit"], "--epochs"),
        ("--log", ["--log-interval", "--log-level"], None),  # either
        ("--learning", ["--learning-rate", "--l"], "--learning-rate"),
        ("x", ["xylophone"], None),
        ("on", ["one", "own"], None),
        ("__", ["--", "lr"], "--"),
        ("", ["lr"], None),
        ("lr", [], None),
    ],
)
def test_a_short_form_is_recognised_where_one_word_has_it(
    word: str, known: list[str], meant: str | None
) -> None:
    assert find_meant(word, known) == meant
