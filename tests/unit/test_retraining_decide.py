"""A look's decision: total, deterministic, and never two trainings for one change."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from worldsize.retraining.decide import BACK_OFF, LONGEST_BACK_OFF, decide
from worldsize.retraining.facts import Attempt, Facts, Fingerprint, limit_run
from worldsize.retraining.policy import DataPolicy, Policy

NOW = 1_772_420_400.0  # 2026-03-02T03:00Z
A, B = Fingerprint("code", {"sales": "a"}), Fingerprint("code", {"sales": "b"})
CAUSES = [None, "eviction", "machine", "hang", "time", "code", "configuration", "data"]

fingerprints = st.builds(
    Fingerprint, st.sampled_from("cd"), st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from("12"))
)
times = st.integers(-10, 10).map(lambda hours: NOW + 3600.0 * hours)
attempts = st.builds(
    Attempt,
    run=st.sampled_from("pqrs"),
    fingerprint=fingerprints,
    state=st.sampled_from(["running", "finished", "failed", "interrupted"]),
    firing=times,
    began=times,
    ended=times,
    starts=st.integers(1, 6),
    trained=st.booleans(),
    verdict=st.sampled_from(["promote", "keep"]),
    cause=st.sampled_from(CAUSES),
    limit=st.sampled_from([None, 60.0, 1e9]),
)
facts_of_any_kind = st.builds(
    Facts,
    fingerprints,
    st.lists(attempts, max_size=6).map(tuple),
    st.booleans(),
    st.sampled_from([(), ("`sales` is empty",)]),
    st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 2000)),
    st.none() | st.integers(0, 9),
    st.frozensets(st.sampled_from(["stale:", "stale:p", "not_promoted:p"])),
)
policies = st.builds(
    Policy,
    st.dictionaries(
        st.sampled_from(["x", "y"]), st.builds(DataPolicy, minimum_new_rows=st.integers(0, 1000))
    ),
    st.sampled_from(["new_data", "always"]),
    st.sampled_from(["skip", "queue", "replace"]),
    st.integers(0, 4),
    st.integers(1, 4),
)


@given(facts_of_any_kind, policies)
def test_every_fact_has_one_decision_with_a_reason(facts: Facts, policy: Policy) -> None:
    action = decide(facts, policy, NOW)
    assert action.reason
    assert action == decide(replace(facts), policy, NOW)
    assert (action.run is not None) or action.kind not in ("continue", "end")


@given(facts_of_any_kind, policies)
def test_the_order_of_attempts_means_nothing(facts: Facts, policy: Policy) -> None:
    runs = {attempt.run: attempt for attempt in facts.attempts}  # a run is there once
    one = replace(facts, attempts=tuple(runs.values()))
    other = replace(facts, attempts=tuple(reversed(runs.values())))
    kinds = {decide(one, policy, NOW).kind, decide(other, policy, NOW).kind}
    assert len(kinds) == 1


@given(facts_of_any_kind, policies)
def test_nothing_starts_beside_a_training(facts: Facts, policy: Policy) -> None:
    if facts.looking or any(attempt.state == "running" for attempt in facts.attempts):
        assert decide(facts, policy, NOW).kind in ("wait", "end")


@given(facts_of_any_kind, policies)
def test_nothing_is_trained_twice_for_one_fingerprint(facts: Facts, policy: Policy) -> None:
    if any(attempt.fingerprint == facts.fingerprint for attempt in facts.successes):
        assert decide(facts, replace(policy, when="new_data"), NOW).kind != "train"


@given(facts_of_any_kind, policies)
def test_a_notice_is_given_once(facts: Facts, policy: Policy) -> None:
    notices = decide(facts, policy, NOW).notices
    after = replace(facts, told=facts.told | {notice.cause for notice in notices})
    again = decide(after, policy, NOW)
    assert not again.notices
    assert again.kind == decide(facts, policy, NOW).kind


@given(st.sampled_from(CAUSES), st.integers(0, 5), st.booleans())
def test_retries_are_bounded(cause: str | None, retries: int, trained: bool) -> None:
    """A cause that never passes: every look comes after the back-off."""
    attempt = Attempt("p", A, "failed", cause=cause, trained=trained)  # type: ignore[arg-type]
    now, continued = NOW, 0
    for _ in range(20):
        action = decide(Facts(A, (attempt,)), Policy(retries=retries), now)
        if action.kind == "stop":
            break
        assert action.kind == "continue"
        continued += 1
        attempt = replace(attempt, starts=attempt.starts + 1, began=now, ended=now)
        now += LONGEST_BACK_OFF
    assert continued == (retries if cause in BACK_OFF else 0)


def test_one_training_at_a_time() -> None:
    running = Attempt("p", A, "running", began=NOW - 60, limit=3600)
    assert decide(Facts(B, (running,)), Policy(), NOW).kind == "wait"
    assert decide(Facts(B, (running,)), Policy(overlap="replace"), NOW).kind == "end"
    assert decide(Facts(A, (running,)), Policy(overlap="replace"), NOW).kind == "wait"
    late = decide(Facts(A, (running,)), Policy(), NOW + 7200)
    assert (late.kind, late.reason) == ("end", "run p takes longer than its limit of 1 h 00 min")


def test_a_trained_model_gets_its_verdict_before_anything_new() -> None:
    killed = Attempt("p", A, "interrupted", trained=True)
    assert decide(Facts(B, (killed,)), Policy(), NOW).kind == "continue"
    assert decide(Facts(B, (killed,), feed_faults=("`sales` is empty",)), Policy(), NOW).kind == "continue"
    assert decide(Facts(B, (replace(killed, trained=False),)), Policy(), NOW).kind == "train"
    hopeless = replace(killed, state="failed", cause="code")
    assert decide(Facts(B, (hopeless,)), Policy(), NOW).kind == "train"
    assert decide(Facts(A, (hopeless,)), Policy(), NOW).kind == "stop"


def test_back_off_grows() -> None:
    evicted = Attempt("p", A, "failed", cause="eviction", ended=NOW)
    waits = [
        decide(Facts(A, (replace(evicted, starts=starts),)), Policy(retries=9), NOW).until
        for starts in (1, 2, 3)
    ]
    assert waits == [NOW + 60, NOW + 120, NOW + 240]


@pytest.mark.parametrize(
    ("facts", "policy", "reason"),
    [
        (Facts(A), Policy(), "nothing has been trained yet"),
        (
            Facts(B, (Attempt("p", A, "finished"),), new_rows={"sales": 1200}),
            Policy(),
            "there is new data: `sales` (1200 new rows)",
        ),
        (
            Facts(B, (Attempt("p", A, "finished"),), new_rows={"sales": 120}),
            Policy({"sales": DataPolicy(minimum_new_rows=1000)}),
            "`sales` has 120 new rows, fewer than `minimum_new_rows: 1000`",
        ),
        (
            Facts(A, (Attempt("p", A, "finished"),)),
            Policy(),
            "nothing is new since run p: data, code and spec are unchanged",
        ),
        (
            Facts(Fingerprint("other"), (Attempt("p", Fingerprint("code"), "finished"),)),
            Policy(),
            "the code, the spec or an environment has changed since run p",
        ),
        (
            Facts(A, (Attempt("p", A, "failed", cause="data", reason="no label"),)),
            Policy(),
            "run p failed, and is not tried again until the data, the code or the spec changes: no label",
        ),
    ],
)
def test_reasons_are_sentences_with_numbers(facts: Facts, policy: Policy, reason: str) -> None:
    assert decide(facts, policy, NOW).reason == reason


def test_always_trains_once_at_each_firing() -> None:
    done = Attempt("p", A, "finished", firing=NOW)
    assert decide(Facts(A, (done,)), Policy(when="always"), NOW).kind == "none"
    assert decide(Facts(A, (done,)), Policy(when="always"), NOW + 60).kind == "train"


def test_notices_say_what_is_wrong() -> None:
    kept = Attempt("p", A, "finished", verdict="keep", reason="the difference is 0.2 standard errors")
    (notice,) = decide(Facts(A, (kept,)), Policy(), NOW).notices
    assert (notice.topic, notice.text) == (
        "not_promoted", "run p was not promoted: the difference is 0.2 standard errors",
    )  # fmt: skip
    failed = Attempt("q", A, "failed", cause="code", reason="rank 0 ended with exit status 1")
    assert [notice.topic for notice in decide(Facts(A, (failed,)), Policy(), NOW).notices] == ["failed"]
    (stopped,) = decide(Facts(A, feed_faults=("`sales` is empty",)), Policy(), NOW).notices
    assert (stopped.topic, stopped.text) == ("stopped", "`sales` is empty")
    (stale,) = decide(Facts(A, firings=3), Policy(), NOW).notices
    assert stale.text == "no training has succeeded at all, in 3 firings: nothing has been trained yet"


@pytest.mark.parametrize(
    ("longest", "estimated", "limit"),
    [
        (None, None, None),
        (60, None, 3600),
        (3600, 1800, 5 * 3600),
        (3600, 7200, 5 * 7200),
        (None, 7200, 5 * 7200),
        (86400, 1e9, 30 * 86400),
    ],
)
def test_the_limit_of_a_run(longest: float | None, estimated: float | None, limit: float | None) -> None:
    assert limit_run(longest, estimated) == limit
