"""Validation while training: whether anything is validated, and by a metric that the task has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from worldsize.azureml.literals import parse_number
from worldsize.azureml.model import Job, Literal, Step
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import closest, did_you_mean
from worldsize.base.wording import show_number
from worldsize.planning.memory.workload import SOURCE_TASKS, find_sharding, literal_inputs

_INTERVALS = ("validate_every_epochs", "validate_every_steps")
_INPUTS = (*_INTERVALS, "early_stopping_patience", "best_metric", "export", "epochs")


def check_job(_context: Tree, job: Job) -> Iterator[Problem]:
    for step in job.steps.values():
        if step.component is not None and step.component.inputs.keys() >= {*_INPUTS}:
            yield from _check_step(job, step, literal_inputs(step, _INPUTS))


def _check_step(job: Job, step: Step, values: Mapping[str, Any]) -> Iterator[Problem]:
    shards = find_sharding(job, step)
    off = _why_off(values, shards)
    patience = parse_number(values["early_stopping_patience"])
    at = _written(step, "early_stopping_patience")
    if off and patience and at:
        message = f"`early_stopping_patience` is {show_number(patience)}, but {off[0]}"
        yield Problem("early-stopping-without-validation", at, message, off[1])
    at = _written(step, "export")
    if off and values["export"] == "best" and at:
        message = f"`export: best` exports the weights of the last step, because {off[0]}"
        yield Problem("best-without-validation", at, message, off[1])
    yield from _check_metric(step, values["best_metric"], shards)
    yield from _check_goal(step, values["best_metric"])
    every, epochs = parse_number(values[_INTERVALS[0]]), parse_number(values["epochs"])
    at = _written(step, _INTERVALS[0])
    if at and every and epochs and every > epochs and parse_number(values[_INTERVALS[1]]) == 0:
        numbers = f"`validate_every_epochs` is {show_number(every)} and `epochs` {show_number(epochs)}"
        message = f"{numbers}: the training is validated only after its last step"
        yield Problem("validation-after-training", at, message, "write a number of at most `epochs`, or 0")


def _why_off(values: Mapping[str, Any], shards: Step | None) -> tuple[str, str] | None:
    """Why nothing is validated, and the help; None if something is, or it is unknown."""
    if all(parse_number(values[name]) == 0 for name in _INTERVALS):
        return "`validate_every_epochs` and `validate_every_steps` are 0", "write `validate_every_epochs: 1`"
    if shards is None or any("split" in name for name in shards.inputs):
        return None
    fraction = literal_inputs(shards, ("validation_fraction",))["validation_fraction"]
    if fraction is None or parse_number(fraction) != 0:
        return None
    help_ = f"write a `validation_fraction` above 0 for step `{shards.name}`"
    return f"step `{shards.name}` has `validation_fraction: 0`", help_


def _check_metric(step: Step, metric: object, shards: Step | None) -> Iterator[Problem]:
    at = _written(step, "best_metric")
    if at is None or not isinstance(metric, str) or "${{" in metric:
        return
    from wsmetrics.names import METRICS, metrics_with_goal  # few steps name one

    task = _find_task(shards) if shards is not None else None
    tasks = [task] if task in METRICS else list(METRICS)
    metrics = list(dict.fromkeys(name for task in tasks for name in metrics_with_goal(task)))
    literals = literal_inputs(step, ("model", "best_metric_goal"))
    if metric not in metrics and isinstance(literals["model"], str) and ".py" in literals["model"]:
        if literals["best_metric_goal"] == "auto":  # else it comes from `metrics` in the user's file
            message = f"`best_metric` is `{metric}`, which is not a metric of any task, and has no direction"
            near = closest(metric, metrics)
            help_ = "if it is your own, write `best_metric_goal: maximize` or `best_metric_goal: minimize`"
            help_ = f"did you mean `{near}`? {help_}" if near else help_
            yield Problem("best-metric-unknown", at, message, help_)
    elif metric not in metrics:
        whose = f"the task {task}" if task in METRICS else "any task"
        message = f"`best_metric` is `{metric}`, which is not a metric of {whose}"
        help_ = did_you_mean(metric, metrics) or f"write one of {', '.join(f'`{name}`' for name in metrics)}"
        yield Problem("best-metric-unknown", at, message, help_)


def _check_goal(step: Step, metric: object) -> Iterator[Problem]:
    at = _written(step, "best_metric_goal")
    direction = literal_inputs(step, ("best_metric_goal",))["best_metric_goal"] if at is not None else None
    if at is None or direction not in ("minimize", "maximize"):
        return
    from wsmetrics.names import METRICS, goal, metrics_with_goal  # few steps give one

    metrics = {name for task in METRICS for name in metrics_with_goal(task)}
    if metric in metrics and goal(str(metric)) != direction:
        more = "higher" if direction == "minimize" else "lower"
        message = f"`best_metric_goal` is `{direction}`, but `{metric}` is better the {more} it is"
        yield Problem("best-metric-unknown", at, message, "remove `best_metric_goal`")


def _find_task(shards: Step) -> str | None:
    values = literal_inputs(shards, ("task", "source"))
    if isinstance(values["task"], str) and values["task"] not in ("", "auto"):
        return values["task"]
    return SOURCE_TASKS.get(str(values["source"]))


def _written(step: Step, name: str) -> Span | None:
    argument = step.inputs.get(name)
    return argument.span if argument is not None and isinstance(argument.value, Literal) else None
