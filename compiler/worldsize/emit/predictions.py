"""The predictions of a training step as inputs of it: the trainer reports what it measures beside them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from worldsize.azureml.model import Argument, Field, Literal, Step
from worldsize.planning.estimates import prediction
from worldsize.planning.memory import step_memory
from worldsize.planning.memory.workload import PREDICTION
from worldsize.planning.model import Plan
from worldsize.resolving import rows
from worldsize.resolving.measured_case import MeasuredRun, choose_runs
from worldsize.resolving.state import ResolvedSpec
from worldsize.resolving.step_estimates import StepEstimate, estimate_step


def add_predictions(resolved: ResolvedSpec, plan: Plan, runs: Sequence[MeasuredRun] = ()) -> dict[str, Step]:
    """The steps, with the predicted memory and speed where their components ask for them.

    The trials of a sweep are planned one by one, and have none. A value that the spec gives is kept. Speeds
    are calibrated by ``runs``.

    Raises:
        UnusableRunError: A run tells nothing of the step that it trained.
    """
    read_table = partial(rows.read_table_samples, resolved.files, resolved.spec.path.parent)
    needs = step_memory.estimate_steps(resolved.job, plan, read_table=read_table, learned=resolved.vm_sizes)
    trainings = [name for name, step in plan.steps.items() if step.training is not None]
    steps = {}
    for name, step in resolved.job.steps.items():
        asked = step.component.inputs if step.component is not None and step.type != "sweep" else {}
        found: dict[str, Field[Argument]] = {}
        if name in needs and PREDICTION in asked:
            found |= _predict_memory(needs[name])
        if prediction.SPEED in asked and plan.steps[name].training is not None:
            own = choose_runs(runs, name, trainings)
            speed = estimate_step(resolved, name, plan.steps[name], own, read_table)
            found |= {key: value for key, value in _predict_speed(speed).items() if key in asked}
        steps[name] = replace(step, inputs={**step.inputs, **found, **step.inputs}) if found else step
    return steps


def _predict_memory(need: step_memory.Need) -> dict[str, Field[Argument]]:
    comment = "bytes a process, see worldsize plan --memory"
    return {PREDICTION: Field[Argument](Literal(need.breakdown.total), comment=comment)}


def _predict_speed(found: StepEstimate) -> dict[str, Field[Argument]]:
    if found.case is None or found.estimate is None:
        return {}
    values = prediction.write_inputs(found.case, found.estimate.samples_per_second)
    comment = f"{found.estimate.basis}, see worldsize plan"
    return {
        name: Field[Argument](Literal(value), comment=comment if name == prediction.SPEED else None)
        for name, value in values.items()
    }
