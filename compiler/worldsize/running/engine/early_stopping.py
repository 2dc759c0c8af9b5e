"""Early stopping of trials: Azure ML's three policies, applied to what the trials have logged so far.

An interval is one logged value of the primary metric. A policy applies at every multiple of
``evaluation_interval`` that is at least ``delay_evaluation``, to the trials that have just reached it.
The definitions are those of Microsoft Learn, "Hyperparameter tuning a model", section "Specify early
termination policy", with its examples as tests.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from worldsize.running.model.sweep import EarlyTermination, Goal

History = Sequence[float]  # one value an interval


def best_value(history: History, goal: Goal) -> float:
    """The best value of a trial. NaN is worse than any number; an empty history has none.

    Raises:
        ValueError: The history is empty.
    """
    numbers = [value for value in history if not math.isnan(value)]
    if not numbers and history:
        return math.nan
    return min(numbers) if goal == "minimize" else max(numbers)


def is_worse(value: float, than: float, goal: Goal) -> bool:
    """Whether a value is strictly worse than another; NaN is worse than any number."""
    if math.isnan(value) or math.isnan(than):
        return math.isnan(value) and not math.isnan(than)
    return value > than if goal == "minimize" else value < than


def should_stop(
    policy: EarlyTermination, goal: Goal, name: str, histories: Mapping[str, History], running: frozenset[str]
) -> bool:
    """Whether the policy ends one trial at the interval that it has reached.

    ``histories`` holds what every trial has logged, those that have ended too.
    """
    interval = policy.last_due(len(histories.get(name, ())))
    if interval == 0:
        return False
    # Only trials that have reached this interval can be compared at it.
    reached = {each: history[:interval] for each, history in histories.items() if len(history) >= interval}
    if policy.kind == "bandit":
        return _exceeds_slack(policy, goal, name, reached)
    if policy.kind == "median_stopping":
        return _is_below_median(goal, name, reached)
    if policy.exclude_finished_jobs:
        reached = {each: history for each, history in reached.items() if each in running or each == name}
    return _is_truncated(policy, goal, name, reached)


def _exceeds_slack(policy: EarlyTermination, goal: Goal, name: str, reached: Mapping[str, History]) -> bool:
    """Whether a trial is worse than the best one by more than the slack.

    With ``slack_factor`` f, 0.8 to be maximised allows 0.8 / (1 + f), and 0.8 to be minimised
    0.8 · (1 + f). Below zero the absolute value counts, so that the slack stays positive.
    """
    top = _top([best_value(history, goal) for history in reached.values()], goal)
    if policy.slack_amount:
        slack = policy.slack_amount
    else:
        factor = policy.slack_factor or 0.0
        slack = abs(top) * (factor if goal == "minimize" else factor / (1 + factor))
    limit = top + slack if goal == "minimize" else top - slack
    return is_worse(best_value(reached[name], goal), limit, goal)


def _is_below_median(goal: Goal, name: str, reached: Mapping[str, History]) -> bool:
    """Whether its best value is worse than the median of the running averages of all trials."""
    averages = [statistics.fmean(history) for history in reached.values()]
    numbers = [average for average in averages if not math.isnan(average)]
    return bool(numbers) and is_worse(best_value(reached[name], goal), statistics.median(numbers), goal)


def _is_truncated(policy: EarlyTermination, goal: Goal, name: str, reached: Mapping[str, History]) -> bool:
    """Whether it is among the percentage of worst trials, rounded down; of equal ones the later are."""
    doomed = len(reached) * policy.truncation_percentage // 100
    scores = {each: best_value(history, goal) for each, history in reached.items()}
    order = sorted(scores, key=lambda each: (_rank(scores[each], goal), each))
    return name in order[len(order) - doomed :]


def _top(values: Sequence[float], goal: Goal) -> float:
    return min(values, key=lambda value: _rank(value, goal))


def _rank(value: float, goal: Goal) -> float:
    """A sort key that puts the best first."""
    if math.isnan(value):
        return math.inf
    return value if goal == "minimize" else -value
