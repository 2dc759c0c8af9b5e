"""When a training is validated, which step is the best, and when it stops; no framework takes part."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wsshards.errors import UserError
from wsshards.manifest import Features, Manifest, Split
from wstrain.hooks import Hooks
from wstrain.settings import Settings, parse_settings
from wstrain.validation import (
    ValidationController,
    ValidationSchedule,
    cut_blocks,
    decision_facts,
    make_controller,
    make_validation_schedule,
    share_blocks,
)

EVERY_STEP = ValidationSchedule((1,), 1000)
STEPS = {"steps_per_epoch": 10, "total_steps": 25}
NEEDED = ["--world_size", "1", "--batch_size_per_device", "1", "--global_batch_size", "1"]
NEEDED += ["--learning_rate", "1", "--shards", "s", "--checkpoints", "c", "--trained_model", "m"]


def given_settings(**values: object) -> Settings:
    return replace(parse_settings(NEEDED, started=1, strategies=("ddp",)), **values)  # type: ignore[arg-type]


def follow(controller: ValidationController, values: list[float], start: int = 1) -> list[int]:
    """Give it one value after each step until it stops; returns the steps."""
    taken = []
    for step, value in enumerate(values, start=start):
        if controller.should_stop:
            break
        controller.note(step, {"loss": value})
        taken.append(step)
    return taken


def test_it_is_due_every_epoch_every_few_steps_and_at_the_end() -> None:
    schedule = make_validation_schedule(given_settings(validate_every_steps=4), STEPS, rows=3)
    assert [step for step in range(30) if schedule.is_due(step)] == [4, 8, 10, 12, 16, 20, 24, 25, 28]
    half = make_validation_schedule(given_settings(validate_every_epochs=0.5), STEPS, rows=3)
    assert half.intervals == (5,)
    tiny = make_validation_schedule(given_settings(validate_every_epochs=0.01), STEPS, rows=3)
    assert tiny.intervals == (1,)


def test_without_rows_or_intervals_it_is_never_due() -> None:
    off = given_settings(validate_every_epochs=0.0)
    for schedule in (
        make_validation_schedule(off, STEPS, rows=3),
        make_validation_schedule(given_settings(), STEPS, rows=0),
    ):
        assert not any(schedule.is_due(step) for step in range(26))


@pytest.mark.parametrize(
    ("values", "rows", "message"),
    [({"validate_every_epochs": 0.0}, 3, "validation is off"), ({}, 0, "the shards have no validation rows")],
)
def test_stopping_early_needs_a_validation(values: dict[str, float], rows: int, message: str) -> None:
    settings = given_settings(early_stopping_patience=2, **values)
    with pytest.raises(UserError, match=message):
        make_validation_schedule(settings, STEPS, rows)


def test_the_best_is_the_best_however_little_and_patience_wants_more() -> None:
    controller = ValidationController(EVERY_STEP, patience=2, min_delta=0.1)
    assert follow(controller, [1.0, 0.95, 0.93, 0.5]) == [1, 2, 3]
    assert (controller.best_step, controller.best_value) == (3, 0.93)
    assert controller.describe() == "validation_loss 0.93 at step 3"


def test_small_improvements_add_up_to_one_that_counts() -> None:
    controller = ValidationController(EVERY_STEP, patience=2, min_delta=0.1)
    assert follow(controller, [1.0, 0.95, 0.89, 0.85, 0.78]) == [1, 2, 3, 4, 5]


def test_a_goal_may_be_to_maximize() -> None:
    controller = ValidationController(EVERY_STEP, "accuracy", "maximize")
    assert [controller.note(step, {"accuracy": value}) for step, value in ((1, 0.5), (2, 0.4), (3, 0.6))] == [
        True,
        False,
        True,
    ]
    assert controller.best_step == 3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_never_the_best(value: float) -> None:
    controller = ValidationController(EVERY_STEP, patience=2)
    assert follow(controller, [value, value, 0.1]) == [1, 2]
    assert controller.best_step is None


def test_the_threshold_of_the_exported_step_is_kept() -> None:
    controller = ValidationController(EVERY_STEP)
    for step, loss, threshold in ((1, 0.5, 0.3), (2, 0.1, 0.4), (3, 0.2, None), (4, 0.3, 0.6)):
        controller.note(step, {"loss": loss}, threshold)
    resumed = ValidationController(EVERY_STEP)
    resumed.restore(json.loads(json.dumps(controller.state())))
    for known in (controller, resumed):
        assert decision_facts(known, 2) == {"decision_threshold": 0.4}  # the best
        assert decision_facts(known, 4) == {"decision_threshold": 0.6}  # the last
        assert decision_facts(known, 3) == {}
    assert decision_facts(None, 4) == {}


def test_a_checkpoint_of_an_earlier_version_has_no_threshold() -> None:
    controller = ValidationController(EVERY_STEP)
    controller.note(1, {"loss": 0.5})
    state = {name: value for name, value in controller.state().items() if not name.endswith("threshold")}
    assert ValidationController(EVERY_STEP).restore(state)


def test_a_metric_that_is_not_there_is_named() -> None:
    controller = ValidationController(EVERY_STEP, "auroc")
    with pytest.raises(UserError, match="`auroc` cannot be computed"):
        controller.note(1, {"loss": 1.0})


def test_a_step_is_not_validated_twice() -> None:
    controller = ValidationController(EVERY_STEP)
    assert controller.is_due(1)
    controller.note(1, {"loss": 1.0})
    assert not controller.is_due(1)
    assert controller.is_due(2)


def test_a_state_of_another_metric_is_not_used() -> None:
    controller = ValidationController(EVERY_STEP, "accuracy", "maximize")
    assert not controller.restore(ValidationController(EVERY_STEP).state())
    assert not controller.restore({})
    assert controller.best_step is None


def test_an_unknown_metric_is_refused_with_those_there_are() -> None:
    def goal_of(hooks: Hooks | None = None, **values: object) -> str:
        features = Features("features", "float32", (2,))
        manifest = Manifest("regression", "a.csv", 0, features, None, Split(90, ()), Split(9, ()))
        return make_controller(given_settings(**values), manifest, STEPS, hooks).goal

    own = Hooks("net.py", metrics=len)
    assert goal_of(best_metric="r2") == goal_of(own, best_metric="r2") == "maximize"
    assert goal_of(own, best_metric="pinball", best_metric_goal="minimize") == "minimize"
    with pytest.raises(UserError, match="`acuracy` is not a metric of the task regression") as caught:
        goal_of(best_metric="acuracy", best_metric_goal="maximize")
    assert caught.value.help == "use one of `loss`, `mse`, `rmse`, `mae`, `r2`"
    with pytest.raises(UserError, match="`pinball` is to come from `metrics` in"):
        goal_of(own, best_metric="pinball")
    with pytest.raises(UserError, match="`best_metric_goal` is `minimize`, but `r2` is better the higher"):
        goal_of(best_metric="r2", best_metric_goal="minimize")


VALUES = st.lists(st.floats(-10, 10) | st.just(math.nan), max_size=30)


@given(
    VALUES, st.integers(0, 30), st.integers(0, 4), st.floats(0, 1), st.sampled_from(["minimize", "maximize"])
)
def test_killed_and_resumed_it_stops_at_the_same_step_with_the_same_best(
    values: list[float], killed: int, patience: int, delta: float, goal: str
) -> None:
    whole = ValidationController(EVERY_STEP, "loss", goal, patience, delta)
    taken = follow(whole, values)
    first = ValidationController(EVERY_STEP, "loss", goal, patience, delta)
    before = follow(first, values[:killed])
    second = ValidationController(EVERY_STEP, "loss", goal, patience, delta)
    assert second.restore(json.loads(json.dumps(first.state())))
    after = follow(second, values[len(before) :], start=len(before) + 1)
    assert before + after == taken
    assert second.state() == whole.state()


@given(VALUES)
def test_the_best_step_has_the_best_value_and_is_the_first_with_it(values: list[float]) -> None:
    controller = ValidationController(EVERY_STEP)
    follow(controller, values)
    finite = [value for value in values if math.isfinite(value)]
    assert controller.best_value == (min(finite) if finite else None)
    if finite:
        assert controller.best_step == values.index(min(finite)) + 1


@given(st.integers(0, 500), st.integers(1, 64), st.integers(1, 9))
def test_every_row_counts_once_and_every_replica_takes_as_many_blocks(
    rows: int, size: int, replicas: int
) -> None:
    blocks = cut_blocks(rows, size)
    assert [row for block in blocks for row in block] == list(range(rows))
    shares = [list(share_blocks(len(blocks), replica, replicas)) for replica in range(replicas)]
    assert len({len(share) for share in shares}) == 1
    counted = sorted(number for share in shares for number, counts in share if counts)
    assert counted == list(range(len(blocks)))
