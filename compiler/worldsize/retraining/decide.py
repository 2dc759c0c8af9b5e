"""The decision of one look: a pure function of the facts, the policy and the time."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from worldsize.base.wording import format_duration, join_words, plural
from worldsize.retraining.facts import Attempt, Cause, Facts
from worldsize.retraining.policy import Policy, Topic

Kind = Literal["train", "continue", "end", "none", "stop", "wait"]

# Seconds before the first retry, doubled for each further one; a cause without a row is never retried.
BACK_OFF: dict[Cause | None, float] = {None: 0, "eviction": 60, "machine": 300, "hang": 600, "time": 600}
LONGEST_BACK_OFF = 6 * 3600.0


class Notice(Struct, frozen=True):
    """Something that somebody should know, once for each cause."""

    topic: Topic
    cause: str
    text: str


class Action(Struct, frozen=True):
    """What a look does, and why.

    ``continue`` resumes ``run`` where it stopped; ``end`` ends it, and looks again.
    """

    kind: Kind
    reason: str
    run: str | None = None
    until: float | None = None  # when waiting ends by itself
    notices: tuple[Notice, ...] = ()


def decide(facts: Facts, policy: Policy, now: float) -> Action:
    """Decide what to do: at most one training for what is new, and none while one runs."""
    action = (
        _mind_running(facts, policy, now)
        or _finish_promotion(facts, policy, now)
        or _mind_feed(facts)
        or _mind_failure(facts, policy, now)
        or _skip_unchanged(facts, policy, now)
        or _want_rows(facts, policy)
        or Action("train", _explain_training(facts))
    )
    return Action(action.kind, action.reason, action.run, action.until, _list_notices(facts, policy, action))


def _mind_running(facts: Facts, policy: Policy, now: float) -> Action | None:
    running = [attempt for attempt in facts.attempts if attempt.state == "running"]
    for attempt in running:
        if attempt.limit is not None and now - attempt.began > attempt.limit:
            limit = format_duration(attempt.limit)
            return Action("end", f"run {attempt.run} takes longer than its limit of {limit}", attempt.run)
    for attempt in running:
        older = attempt.fingerprint != facts.fingerprint and not attempt.trained
        if policy.overlap == "replace" and older:
            return Action("end", f"run {attempt.run} trains on what is no longer the newest", attempt.run)
    if running:
        return Action("wait", f"run {running[0].run} is still at work", running[0].run)
    return Action("wait", "another look is at work") if facts.looking else None


def _finish_promotion(facts: Facts, policy: Policy, now: float) -> Action | None:
    """Whatever else is new: a model that was trained gets its verdict first."""
    newest = facts.newest()
    if newest is None or newest.state not in ("failed", "interrupted") or not newest.trained:
        return None
    action = _retry(newest, policy, now)
    # What cannot be finished holds up nothing that is new.
    return None if action.kind == "stop" and newest.fingerprint != facts.fingerprint else action


def _mind_feed(facts: Facts) -> Action | None:
    return Action("stop", "; ".join(facts.feed_faults)) if facts.feed_faults else None


def _mind_failure(facts: Facts, policy: Policy, now: float) -> Action | None:
    newest = facts.newest()
    if newest is None or newest.state not in ("failed", "interrupted"):
        return None
    return _retry(newest, policy, now) if newest.fingerprint == facts.fingerprint else None


def _retry(attempt: Attempt, policy: Policy, now: float) -> Action:
    """Continue an attempt after a while, unless its cause stays or it was tried often enough."""
    why = f": {attempt.reason}" if attempt.reason else ""
    if attempt.cause not in BACK_OFF:
        until = "until the data, the code or the spec changes"
        return Action("stop", f"run {attempt.run} failed, and is not tried again {until}{why}", attempt.run)
    if attempt.starts > policy.retries:
        tries = plural(attempt.starts, "attempt")
        return Action("stop", f"run {attempt.run} did not succeed in {tries}{why}", attempt.run)
    back_off = min(LONGEST_BACK_OFF, BACK_OFF[attempt.cause] * 2.0 ** min(attempt.starts - 1, 20))
    if now < attempt.ended + back_off:
        left = format_duration(attempt.ended + back_off - now)
        reason = f"run {attempt.run} failed, and is continued in {left}{why}"
        return Action("wait", reason, attempt.run, attempt.ended + back_off)
    done = "its verdict is missing" if attempt.trained else "it is not finished"
    return Action("continue", f"run {attempt.run} is continued: {done}", attempt.run)


def _skip_unchanged(facts: Facts, policy: Policy, now: float) -> Action | None:
    same = [attempt for attempt in facts.successes if attempt.fingerprint == facts.fingerprint]
    if policy.when == "always":
        if not any(attempt.firing == now for attempt in same):
            return None
        return Action("none", "the training of this firing is done")
    if not same:
        return None
    return Action("none", f"nothing is new since run {same[-1].run}: data, code and spec are unchanged")


def _want_rows(facts: Facts, policy: Policy) -> Action | None:
    """Wait for more rows where only the data has changed, and of no input enough; unknown counts suffice."""
    if not facts.successes or policy.when == "always":
        return None
    last = facts.successes[-1].fingerprint
    changed = _list_changed_inputs(facts)
    if facts.fingerprint.code != last.code or not changed:
        return None
    few = []
    for name in changed:
        least = policy.data[name].minimum_new_rows if name in policy.data else 0
        rows = facts.new_rows.get(name)
        if rows is None or rows >= least:
            return None
        few.append(f"`{name}` has {plural(rows, 'new row')}, fewer than `minimum_new_rows: {least}`")
    return Action("none", join_words(few, "and"))


def _explain_training(facts: Facts) -> str:
    if not facts.successes:
        return "nothing has been trained yet"
    last = facts.successes[-1]
    if facts.fingerprint.code != last.fingerprint.code:
        return f"the code, the spec or an environment has changed since run {last.run}"
    changed = [
        f"`{name}`" + (f" ({plural(facts.new_rows[name], 'new row')})" if name in facts.new_rows else "")
        for name in _list_changed_inputs(facts)
    ]
    return f"there is new data: {join_words(changed, 'and')}" if changed else "it is to train at every firing"


def _list_changed_inputs(facts: Facts) -> list[str]:
    """The inputs whose content differs from that of the last success."""
    before, now = facts.successes[-1].fingerprint.data, facts.fingerprint.data
    return sorted(name for name in {**before, **now} if before.get(name) != now.get(name))


def _list_notices(facts: Facts, policy: Policy, action: Action) -> tuple[Notice, ...]:
    """What is due and was not told before."""
    newest, due = facts.newest(), []
    if action.kind == "stop":
        failed = newest is not None and action.run == newest.run
        topic: Topic = "failed" if failed else "stopped"
        due.append(Notice(topic, f"{topic}:{action.run or action.reason}", action.reason))
    if newest is not None and newest.state == "finished" and newest.verdict == "keep":
        text = f"run {newest.run} was not promoted" + (f": {newest.reason}" if newest.reason else "")
        due.append(Notice("not_promoted", f"not_promoted:{newest.run}", text))
    if facts.firings is not None and facts.firings >= policy.stale_after:
        last = facts.successes[-1].run if facts.successes else ""
        since = f"since run {last}" if last else "at all"
        text = f"no training has succeeded {since}, in {plural(facts.firings, 'firing')}: {action.reason}"
        due.append(Notice("stale", f"stale:{last}", text))
    return tuple(notice for notice in due if notice.cause not in facts.told)
