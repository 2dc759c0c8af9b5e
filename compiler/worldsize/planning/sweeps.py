"""Plans each trial of a step with ``sweep:``: a batch size that is searched over moves the learning rate.

The trials are planned one by one, each as if its values were pinned under ``scale:``. What differs between
them is derived again in each trial by the component, with the same arithmetic, as Azure ML only puts the
values that are searched over into the command.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from worldsize.base.wording import join_words
from worldsize.facts import optimizers
from worldsize.planning.model import Derivation, Notes, PlannedSweep, StepPlan, Trial
from worldsize.spec.model import Located, Step, Sweep
from worldsize.spec.sweep import list_values

PlanStep = Callable[[Step, Notes], StepPlan | None]

BATCHES = ("global_batch_size", "batch_size_per_device")
_RATE = "reference_learning_rate"  # what a trial searches over to move the scaled rate
_OPTIMIZER = "optimizer"
_MOST_COMBINATIONS = 256  # that are planned


def plan_sweep(step: Step, plan_step: PlanStep, notes: Notes) -> StepPlan | None:
    """Plan a step, for each kind of trial where it has a sweep; problems are added to ``notes``.

    The plan of the step itself is that of the trial with the smallest global batch.
    """
    sweep = step.sweep
    if sweep is None:
        return plan_step(step, notes)
    if step.scale is None:
        planned = plan_step(step, notes)
        return replace(planned, sweep=_summary(sweep, (), ())) if planned is not None else None
    _check_pins(step, sweep, notes)
    start = (notes.wrong_counts, list(notes.derivations))
    plans: list[tuple[dict[str, Any], StepPlan, Notes]] = []
    for values in _combinations(sweep, notes):
        trial_notes = Notes(step.name, start[0], derivations=list(start[1]))
        planned = plan_step(_pin(_represent(step, sweep), values), trial_notes)
        notes.problems += trial_notes.problems
        notes.consequences += trial_notes.consequences
        if planned is None:
            return None
        plans.append(({name: located.value for name, located in values.items()}, planned, trial_notes))
    _, base, base_notes = min(plans, key=lambda trial: _global_batch(trial[1]))
    notes.derivations = [_name_source(row, step.name) for row in base_notes.derivations]
    notes.advice = base_notes.advice
    base = replace(base, derivations=tuple(notes.derivations))
    if len(plans) == 1 and not plans[0][0]:
        varying: tuple[str, ...] = ("learning_rate",) if _RATE in sweep.search_space else ()
        return replace(base, sweep=_summary(sweep, (), varying))
    trials = tuple(Trial(values, planned.inputs) for values, planned, _ in plans)
    varying = tuple(
        name for name in base.inputs if any(trial.inputs.get(name) != base.inputs[name] for trial in trials)
    )
    if _RATE in sweep.search_space and "learning_rate" not in varying:
        varying = (*varying, "learning_rate")
    _check_rule(sweep, plans, notes)
    return replace(base, sweep=_summary(sweep, trials, varying))


def _name_source(row: Derivation, step: str) -> Derivation:
    """The row of the table with the search space as the source of what it gives."""
    if row.quantity in BATCHES and row.source == f"given as {step}.scale.{row.quantity}":
        return replace(row, source=f"smallest of {step}.sweep.search_space")
    return row


def _summary(sweep: Sweep, trials: tuple[Trial, ...], varying: tuple[str, ...]) -> PlannedSweep:
    total = sweep.max_total_trials.value
    at_once = sweep.max_concurrent_trials
    return PlannedSweep(
        max_total_trials=total,
        max_concurrent_trials=min(at_once.value if at_once is not None else total, total),
        searched=tuple(sweep.search_space),
        trials=trials,
        varying=tuple(name for name in varying if name not in sweep.search_space),
    )


def _global_batch(plan: StepPlan) -> int:
    return plan.training.global_batch_size if plan.training is not None else 0


def _combinations(sweep: Sweep, notes: Notes) -> Iterator[dict[str, Located[Any]]]:
    """The values that decide the plan, in every combination; one empty combination if there are none."""
    lists: dict[str, list[Located[Any]]] = {}
    for name in (*BATCHES, _OPTIMIZER):
        located = sweep.search_space.get(name)
        values = list_values(located) if located is not None else []
        if located is not None and values is None:
            message = (
                f"`{name}` is searched over as `{located.value['type']}`, so its values are not known and the"
                " learning rate cannot be planned for them"
            )
            help_ = "write `type: choice` with `values:`"
            notes.report("sweep-not-planned", located.key_span, message, help_)
        fitting = [value for value in values or () if _fits(name, value.value)]
        if fitting:
            lists[name] = fitting
    combined = itertools.islice(itertools.product(*lists.values()), _MOST_COMBINATIONS)
    yield from (dict(zip(lists, values, strict=True)) for values in combined)


def _fits(name: str, value: Any) -> bool:
    """Whether a value can be planned; the rules report those of another type than the input takes."""
    if name == _OPTIMIZER:
        return isinstance(value, str) and optimizers.lookup(value) is not None
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and value >= 1 and value == int(value)
    )


def _pin(step: Step, values: Mapping[str, Located[Any]]) -> Step:
    """The step of a trial: its batches under ``scale:``, its optimizer as an input."""
    scale = step.scale
    assert scale is not None
    batches = {
        name: replace(value, value=int(value.value)) for name, value in values.items() if name in BATCHES
    }
    optimizer = {name: value for name, value in values.items() if name == _OPTIMIZER}
    return replace(step, scale=replace(scale, **batches), with_={**step.with_, **optimizer})


def _represent(step: Step, sweep: Sweep) -> Step:
    """The step with the fewest epochs that are searched over, for which a warm-up must be short enough."""
    located = sweep.search_space.get("epochs")
    values = list_values(located) if located is not None else None
    numbers = [value for value in values or () if isinstance(value.value, int | float) and value.value > 0]
    if not numbers or "epochs" in step.with_:
        return step
    return replace(step, with_={**step.with_, "epochs": min(numbers, key=lambda value: float(value.value))})


def _check_pins(step: Step, sweep: Sweep, notes: Notes) -> None:
    for name, located in sweep.search_space.items():
        pinned = getattr(step.scale, name, None)
        if isinstance(pinned, Located):
            message = f"`{name}` is pinned under `scale:` and searched over"
            notes.report("sweep-given-twice", located.key_span, message, "remove one of the two")


def _check_rule(sweep: Sweep, plans: list[tuple[dict[str, Any], StepPlan, Notes]], notes: Notes) -> None:
    """Report optimizers whose rules differ: all trials get one rule."""
    located = sweep.search_space.get(_OPTIMIZER)
    trained = [(values, planned.training) for values, planned, _ in plans if planned.training is not None]
    rules = {str(values[_OPTIMIZER]): training.rule for values, training in trained if _OPTIMIZER in values}
    scaled = any(training.kappa != 1 for _, training in trained)
    if located is None or len(set(rules.values())) < 2 or not scaled:
        return
    listed = join_words([f"`{rule}` for `{name}`" for name, rule in rules.items()], "and")
    message = f"`optimizer` is searched over, but the rule of the learning rate is {listed}"
    help_ = (
        f"write `rule: {min(rules.values())}` under `scale:`, or sweep each optimizer in a step of its own"
    )
    notes.report("sweep-not-planned", located.key_span, message, help_)
