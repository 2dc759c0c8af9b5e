"""Loads specs and estimate files as typed values, with every fault as a problem at its position."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import schedule_times
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.base.wording import quoted_list
from worldsize.documents import yaml
from worldsize.documents.yaml.nodes import find_node, list_entries
from worldsize.spec import pipeline_inputs, retraining, sweep, violations, workload
from worldsize.spec.decode import decode
from worldsize.spec.model import ComputeProfile, EstimateKeys, Located, Schedule, Spec, Step
from worldsize.spec.suggest import closest


def from_document(document: yaml.Document) -> tuple[Spec | None, list[Problem]]:
    """Read a spec from its parsed file.

    Returns:
        The spec, or None if it cannot be planned (invalid YAML, a violation of the schema, or a step on a
        profile that does not exist); and the problems in file order, with those of the YAML.
    """
    root = document.root
    if root is None:
        return None, list(document.problems)
    fixed: list[pipeline_inputs.Fixed] = []
    unbound: list[Problem] = []
    if isinstance(root, yaml.Mapping):
        for _, step in list_entries(root.get("steps")):
            workload.read_exponents(find_node(step, "scale"))
        root, fixed, unbound = pipeline_inputs.fill_defaults(root)
    violations_found = violations.check_schema(root)
    if violations_found or unbound or not isinstance(root, yaml.Mapping):
        at = {(problem.span.line, problem.span.path) for problem in unbound}
        others = [problem for problem in violations_found if (problem.span.line, problem.span.path) not in at]
        return None, violations.sort_problems([*document.problems, *unbound, *others])
    planned = frozenset(replaced.name for replaced in fixed)
    spec = decode(Spec, retraining.add_steps(root), path=Path(document.path), planned_inputs=planned)
    spec = assign_only_profile(_add_split_inputs(spec))
    contradictions = list(check_references(spec))
    doubts = list(_check_times(spec.schedule)) if spec.schedule else []
    doubts += list(retraining.check_division(spec, spec.retrain)) if spec.retrain is not None else []
    doubts += pipeline_inputs.report_fixed([*fixed, *pipeline_inputs.find_decisive(spec)])
    problems = violations.sort_problems([*document.problems, *contradictions, *doubts])
    return None if contradictions else pipeline_inputs.plan_with_defaults(spec), problems


def _check_times(schedule: Schedule) -> Iterator[Problem]:
    if schedule.cron is not None:
        yield from schedule_times.check_cron(schedule.cron.value, schedule.cron.subspan)
    if schedule.recurrence is not None:
        yield from schedule_times.check_unused_days(schedule.recurrence.node)
    start, end = (
        None if time is None else (time.value, time.span) for time in (schedule.start_time, schedule.end_time)
    )
    yield from schedule_times.check_period(start_time=start, end_time=end)


# Keys of `split:`, and the inputs of `shard_data` that they give.
_SPLIT_INPUTS = {
    "validation": "validation_fraction",
    "test": "test_fraction",
    "by": "split_by",
    "after": "validation_after",
    "test_after": "test_after",
    "time": "split_time",
    "given": "split",
}


def _add_split_inputs(spec: Spec) -> Spec:
    """Add the inputs that ``split:`` of a step stands for, each at its own place."""
    steps = {
        name: replace(step, with_={**step.with_, **dict(map(_read_split, step.split.items()))})
        for name, step in spec.steps.items()
        if step.split
    }
    return replace(spec, steps={**spec.steps, **steps}) if steps else spec


def _read_split(entry: tuple[str, Located[Any]]) -> tuple[str, Located[Any]]:
    key, located = entry
    value, node = located.value, located.node
    if key == "given":
        value = "given" if value else "hash"
    elif key in ("after", "test_after", "by", "time") and isinstance(node, yaml.Scalar):
        value = node.text  # a date or a number stays as it is written
    if isinstance(node, yaml.Scalar) and isinstance(value, str):
        node = yaml.Scalar(node.source, node.start, node.end, value, '"')
    return _SPLIT_INPUTS[key], replace(located, value=value, node=node)


def assign_only_profile(spec: Spec) -> Spec:
    """Assign a compute profile that is the only one to the steps without a profile."""
    if len(spec.compute) != 1:
        return spec
    (profile,) = spec.compute.values()
    only = Located(profile.name, profile.span, profile.span)
    steps = {name: step if step.compute else replace(step, compute=only) for name, step in spec.steps.items()}
    return replace(spec, steps=steps)


def check_references(spec: Spec) -> Iterator[Problem]:
    """Report contradictions between parts that are valid on their own."""
    for profile in spec.compute.values():
        yield from _check_instance_bounds(profile)
    for step in spec.steps.values():
        yield from _check_compute(step, spec)
        yield from _check_counts(step)
        yield from sweep.check_sweep(step)
        if step.scale is not None:
            yield from workload.check_stage(step.scale.arithmetic)
            yield from workload.check_workload(step.scale.workload) if step.scale.workload is not None else ()
    yield from pipeline_inputs.check_inputs(spec)
    if spec.retrain is not None:
        yield from retraining.check_retrain(spec, spec.retrain)


def _check_compute(step: Step, spec: Spec) -> Iterator[Problem]:
    profiles = quoted_list(spec.compute)
    if step.compute is not None and step.compute.value not in spec.compute:
        near = closest(step.compute.value, spec.compute)
        message = (
            f"step `{step.name}` runs on `{step.compute.value}`, which is not a profile under `compute:`"
        )
        help_ = f"did you mean `{near}`? profiles: {profiles}" if near else f"profiles: {profiles}"
        yield Problem("step-unknown-compute", step.compute.span, message, help_)


def _check_counts(step: Step) -> Iterator[Problem]:
    for name in ("process_count_per_instance", "worker_count", "parameter_server_count"):
        outer: Located[int] | None = getattr(step, name)
        inner: Located[int] | None = getattr(step.distribution, name) if step.distribution else None
        if outer is not None and inner is not None:
            both = f"{outer.value} here, {inner.value} in `distribution`"
            yield Problem(
                "step-count-given-twice",
                outer.key_span,
                f"`{name}` is given twice for step `{step.name}`: {both}",
                f"keep the one in `distribution` and remove `{name}` here",
                (Related(inner.key_span, "also given here"),),
            )


def _check_instance_bounds(profile: ComputeProfile) -> Iterator[Problem]:
    low, high = profile.min_instances, profile.max_instances
    if low is not None and high is not None and low.value > high.value:
        yield Problem(
            "compute-min-above-max",
            low.span,
            f"`min_instances` is {low.value} but `max_instances` is {high.value}",
            f"write `min_instances: 0`, or `max_instances: {low.value}`",
            (Related(high.span, "the maximum"),),
        )


def read_estimate_file(path: Path) -> tuple[EstimateKeys | None, list[Problem], yaml.Document]:
    """The content of an estimate file, None if it violates the schema; its problems; and the document."""
    document = yaml.load(path)
    root = document.root
    problems = list(document.problems)
    workload.read_exponents(root)
    if root is None or problems:
        return None, problems, document
    problems += violations.check_schema(root, "estimate")
    if problems or not isinstance(root, yaml.Mapping):
        return None, problems, document
    keys = decode(EstimateKeys, root, spans={key.text: key.span for key, _ in root.items()})
    problems += workload.check_workload(keys.workload)
    problems += workload.check_stage(keys.training)
    return keys, problems, document


def report_other_kind(span: Span, kind: str) -> Problem:
    """Report a spec, settings or a file of Azure ML in place of an estimate file."""
    what = {"spec": "a spec", "settings": "a worldsize settings file"}.get(kind)
    what = what or f"an Azure ML {kind.replace('-', ' ')}"
    message = f"this is {what}; an estimate file has `workload`, `training` and `cluster`"
    help_ = "`worldsize plan` shows the time and cost of its steps"
    if kind != "spec":
        help_ = "describe the model in a file of its own: `worldsize estimate --help` has an example"
    return Problem("spec-missing-key", span, message, help_)
