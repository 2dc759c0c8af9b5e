"""Which failures are worth another try, how many, and after which pause."""

from __future__ import annotations

import signal
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from worldsize.api import compile as compile_spec
from worldsize.planning import plan_file
from worldsize.planning.model import Plan
from worldsize.running.engine.attempt import (
    FIRST_SECONDS,
    LONGEST_SECONDS,
    MAX_RESUMES,
    EndedAttempt,
    decide_restart,
)
from worldsize.running.prepare.preparation import read_planned_restarts

KILLED = -int(signal.SIGKILL)
RESUME = 75


def tries(*ended: tuple[int | None, int | None, str]) -> list[EndedAttempt]:
    return [EndedAttempt(*each) for each in ended]


def waits(*arguments: object) -> bool:
    return isinstance(decide_restart(*arguments), float)  # type: ignore[arg-type]


def test_nothing_is_tried_again_unless_asked() -> None:
    assert decide_restart(tries((1, 5, "error"))) == ""
    assert decide_restart(tries((KILLED, 5, "killed"))) == ""


def test_what_saved_its_state_is_resumed_without_being_asked_and_does_not_count() -> None:
    history = tries(*[(RESUME, step, "saved") for step in range(5)], (KILLED, 9, "killed"))
    assert waits(history[:1])
    assert waits(history, 1)
    assert decide_restart([*history, *tries((KILLED, 11, "killed"))], 1) == "it has failed 2 times"


def test_nobody_is_resumed_for_ever() -> None:
    history = tries(*[(RESUME, step, "saved") for step in range(MAX_RESUMES + 1)])
    assert waits(history[:-1])
    assert not waits(history)


def test_the_same_error_at_the_same_step_ends_it() -> None:
    reason = decide_restart(tries((1, 7, "KeyError"), (1, 7, "KeyError")), 9)
    assert reason == "the same error twice at training step 7: another attempt would fail there too"
    assert waits(tries((1, 7, "KeyError"), (1, 8, "KeyError")), 9)
    assert waits(tries((1, 7, "KeyError"), (1, 7, "OSError")), 9)
    reason = decide_restart(tries((1, None, "ImportError"), (1, None, "ImportError")), 9)
    assert "at the start" in str(reason)


def test_who_is_killed_twice_at_one_place_may_try_again() -> None:
    assert waits(tries((KILLED, 7, "killed"), (KILLED, 7, "killed")), 9)


def test_wrong_inputs_stay_wrong() -> None:
    reason = "its inputs are wrong, and another attempt would not change that"
    assert decide_restart(tries((2, None, "error")), 9) == reason


@given(st.integers(1, 30), st.text(max_size=5))
def test_pauses_double_up_to_a_limit_and_are_the_same_for_a_seed(failures: int, seed: str) -> None:
    history = tries(*[(1, step, "error") for step in range(failures)])
    seconds = decide_restart(history, 99, seed)
    assert isinstance(seconds, float)
    assert seconds == decide_restart(history, 99, seed)
    expected = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** (failures - 1))
    assert 0.75 * expected <= seconds <= 1.25 * expected


SPEC = """\
name: digits
compute: {gpu: {target: azureml:gpu, instance_type: Standard_NC24ads_A100_v4}}
steps:
  shard: {uses: shard_data, with: {source: "builtin:digits"}}
  train:
    uses: train_ddp
    resilience: {max_restarts: 3}
    scale: {reference: {batch_size: 32, learning_rate: 0.1}}
"""


def test_a_compiled_pipeline_is_started_again_as_its_plan_says(tmp_path: Path) -> None:
    (tmp_path / "spec.yml").write_text(SPEC, encoding="utf-8")
    pipeline = compile_spec(tmp_path / "spec.yml", tmp_path / "out").pipeline
    compiled = plan_file.load(pipeline.parent)
    assert compiled is not None
    assert read_planned_restarts(compiled[0]) == {"train": 3}
    assert read_planned_restarts(Plan("", {})) == {}
    plan = pipeline.with_name(plan_file.NAME)
    plan.write_text(plan.read_text(encoding="utf-8").replace('"topology"', '"typology"'), encoding="utf-8")
    assert plan_file.load(pipeline.parent) is None
