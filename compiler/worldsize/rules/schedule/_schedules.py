"""Schedules: when they start, the job that they start, and what they repeat."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from worldsize.azureml import fields, references
from worldsize.azureml.fields import read_member
from worldsize.azureml.job import JobSchedule
from worldsize.azureml.model import Argument, Binding, Data, Field, Job, Literal, Step
from worldsize.azureml.references import classify, is_file
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Fix, Problem, Related
from worldsize.base.suggest import closest, did_you_mean
from worldsize.base.wording import join_words, shorten
from worldsize.documents.yaml import to_python
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence, find_node

if TYPE_CHECKING:
    from worldsize.resolving.planned import Planned


_RANGES = {"hours": (0, 23), "minutes": (0, 59), "month_days": (1, 31)}


def check_recurrence_out_of_range(context: Tree, schedule: JobSchedule) -> Iterator[Finding]:
    trigger = schedule.trigger
    if trigger is None:
        return
    interval = trigger.get("interval")
    if isinstance(interval, Scalar) and isinstance(interval.value, int) and interval.value < 1:
        unit = trigger.get("frequency")
        meaning = f": `1` is every {unit.text.lower()}" if isinstance(unit, Scalar) else ""
        message = f"`interval` is {interval.text} but must be at least 1"
        yield Finding(interval.span, message, f"write a whole number of at least 1{meaning}")
    pattern = trigger.get("schedule")
    if isinstance(pattern, Mapping):
        for name, (low, high) in _RANGES.items():
            yield from _outside(name, pattern.get(name), low, high)


def _outside(name: str, node: Node | None, low: int, high: int) -> Iterator[Finding]:
    for item in node.items if isinstance(node, Sequence) else [node]:
        if not isinstance(item, Scalar) or type(item.value) is not int or low <= item.value <= high:
            continue
        message = f"`{name}` has {item.value}, which is outside {low} to {high}"
        yield Finding(item.span, message, f"write a number from {low} to {high}")


_OFFSET = re.compile(r"T?\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(Z|[+-]\d\d:?\d\d)$", re.IGNORECASE)
_ZERO = ("Z", "z", "+00:00", "-00:00", "+0000", "-0000")


def check_start_offset_dropped(context: Tree, schedule: JobSchedule) -> Iterator[Finding]:
    trigger = schedule.trigger
    if trigger is None:
        return
    zone_node = trigger.get("time_zone")
    zone = zone_node.text if isinstance(zone_node, Scalar) else "UTC"
    for name in ("start_time", "end_time"):
        node = trigger.get(name)
        match = _OFFSET.search(node.text) if isinstance(node, Scalar) else None
        if not isinstance(node, Scalar) or match is None:
            continue
        if match[1] in _ZERO and zone.upper() == "UTC":
            continue
        plain = node.text[: match.start(1)].strip()
        message = f"the offset `{match[1]}` of `{name}` is dropped: it is read as {plain} in `{zone}`"
        span = node.subspan(match.start(1), match.end(1))
        yield Finding(span, message, f"write the time of `{zone}` without an offset")


def check_schedule_needs_pipeline(context: Tree, schedule: JobSchedule) -> Iterator[Finding]:
    create_job, reference, job = schedule.create_job, schedule.reference, schedule.job
    kind = fields.read_field(create_job, "type") if isinstance(create_job, Mapping) else None
    if kind is not None and isinstance(kind.value, str) and kind.value.lower() in ("command", "spark"):
        if kind.span is not None:
            message = f"a schedule starts only pipelines, not jobs of type `{kind.value}`"
            yield Finding(kind.span, message, "put the job into a pipeline of one step, and schedule that")
    elif job is not None and job.type != "pipeline" and reference is not None and reference.span is not None:
        message = f"a schedule starts only pipelines, but `{reference.value}` is a {job.type} job"
        yield Finding(reference.span, message, "put the job into a pipeline of one step, and schedule that")


def check_schedule_job_missing(context: Tree, schedule: JobSchedule) -> Iterator[Finding]:
    reference, target = schedule.reference, schedule.target
    if reference is None or target is None or reference.span is None:
        return
    if context.inside(target) and not is_file(target):
        key = "`create_job`" if schedule.create_job is not None else "`import_data`"
        yield references.describe_missing(key, reference.value, target, reference.span)


def check_schedule_input_unknown(context: Tree, schedule: JobSchedule) -> Iterator[Finding]:
    job, inputs = schedule.job, schedule.inputs
    if job is None or inputs is None or job.type != "pipeline":
        return
    for key, _ in inputs.entries:
        if key.text not in job.inputs:
            near = closest(key.text, job.inputs)
            help_ = did_you_mean(key.text, job.inputs) or "the pipeline has no inputs"
            message = f"the scheduled pipeline has no input `{key.text}`"
            yield Finding(key.span, message, help_, fix=Fix(key.span, near, safe=False) if near else None)


def check_create_job_without_type(context: Tree, schedule: JobSchedule) -> Iterator[Finding]:
    create_job = schedule.create_job
    key = schedule.raw.key("create_job")
    if isinstance(create_job, Mapping) and "type" not in create_job and key is not None:
        yield Finding(key.span, "`create_job` has no `type`", "add `type: pipeline`")


_REUSED = ("command", "parallel", "pipeline", "sweep")


def check_schedule_reuses_everything(context: Tree, schedule: JobSchedule) -> Iterator[Finding]:
    job, reference = schedule.job, schedule.reference
    if job is None or job.type != "pipeline" or not job.steps or reference is None or reference.span is None:
        return
    if is_forced(schedule, job) or _changes(job, schedule.inputs):
        return
    reused = {name: _is_reused(step) for name, step in job.steps.items()}
    again = [name for name, is_same in reused.items() if is_same is False]
    unseen = [name for name, is_same in reused.items() if is_same is None]
    if again and (unseen or not _follows_reused_model(job, again)):
        return
    if unseen:
        names = join_words([f"`{name}`" for name in unseen], "or")
        message = (
            f"no input changes: runs after the first only reuse outputs, unless {names} is not deterministic"
        )
    elif again:
        names = join_words([f"`{name}`" for name in again], "and")
        message = f"no input changes: runs after the first reuse the trained model, and only repeat {names}"
    else:
        message = (
            "every step is deterministic and no input changes: runs after the first only reuse its outputs"
        )
    help_ = "write `force_rerun: true` under `settings:` of the pipeline"
    yield Finding(reference.span, message, help_, confidence="possible" if unseen else None)


def _follows_reused_model(job: Job, again: Collection[str]) -> bool:
    """Whether the steps that run again are the last ones, and read a model that is reused."""
    read = {name: _sources(step) for name, step in job.steps.items()}
    if any(source in again for sources in read.values() for source, _ in sources):
        return False
    return all(any(_is_model(job.steps[source], port) for source, port in read[name]) for name in again)


def _sources(step: Step) -> list[tuple[str, str]]:
    """The steps that a step reads from, each with the name of the output."""
    bindings = [field.value for field in step.inputs.values() if isinstance(field.value, Binding)]
    expressions = [binding.expression for binding in bindings]
    return [
        (expression.step, expression.port)
        for expression in expressions
        if expression.step and expression.port
    ]


def _is_model(step: Step, port: str) -> bool:
    declared = step.component.outputs.get(port) if step.component is not None else None
    return declared is not None and (port == "model" or str(declared.type).endswith("_model"))


def is_forced(schedule: JobSchedule, job: Job) -> bool:
    """Whether all steps run again, by the schedule or its pipeline."""
    forced = read_member(job.settings, "force_rerun")
    node = find_node(schedule.create_job, "settings", "force_rerun")
    return bool(node and to_python(node)) or (forced is not None and forced.value is not False)


def _changes(job: Job, inputs: Mapping | None) -> bool:
    """Whether an input may differ between runs: it is an expression. A label is resolved only once."""
    texts = [str(to_python(node)) for _, node in inputs.items()] if inputs is not None else []
    for field in [*job.inputs.values(), *(i for step in job.steps.values() for i in step.inputs.values())]:
        value = field.value
        if isinstance(value, Literal):
            texts.append(str(value.value))
        elif isinstance(value, Data) and value.path is not None:
            texts.append(str(value.path.value))
    return any("${{" in text for text in texts)


def _is_reused(step: Step) -> bool | None:
    """Whether a step with the same inputs is reused; None if only the workspace knows its component."""
    component = step.component
    if step.type not in _REUSED:
        return False
    if component is None:
        text = step.reference.value if step.reference is not None else None
        return None if isinstance(text, str) and classify(text) == "asset" else False
    if component.graph is not None:
        inner = {_is_reused(step) for step in component.graph.steps.values()}
        return False if False in inner else None if None in inner else True
    return component.is_deterministic is None or component.is_deterministic.value is not False


_LABEL = re.compile(r"azureml:[^/@\s]+@\w+")
_PINNED = re.compile(r"azureml:[^/@:\s]+:[\w.-]+")
_NEW_LABEL = (
    "create the schedule again after each new version, or name a datastore path that gets the new data"
)
_NEW_DATA = "name a datastore path that gets the new data: `azureml://datastores/workspaceblobstore/paths/…`"


_LOOK = ", or add `retrain:`, which looks at each firing what is new"


def check_planned(context: Tree, planned: Planned) -> Iterator[Problem]:
    del context
    schedule, looks = planned.spec.schedule, planned.spec.retrain is not None
    if schedule is None:
        return
    pattern = schedule.recurrence.node if schedule.recurrence is not None else None
    yield from _find_skipped_months(pattern)
    if planned.plan is not None:
        if not looks:  # a look reads the newest version
            yield from _find_labels(planned.job, _LOOK)
        # The schedule of a spec repeats all steps.
        related = Related(schedule.span, "the schedule")
        yield from _find_same_rows(planned.job, related, help_="" if looks else _LOOK, looks=looks)


def check_job_schedule(context: Tree, schedule: JobSchedule) -> Iterator[Problem]:
    del context
    yield from _find_skipped_months(schedule.trigger)
    if schedule.job is not None:
        yield from _find_labels(schedule.job)
        if schedule.inputs is None and is_forced(schedule, schedule.job):
            yield from _find_same_rows(schedule.job)


_LACKING = {29: "February, but in leap years", 30: "February", 31: "five months of twelve"}


def _find_skipped_months(trigger: Node | None) -> Iterator[Problem]:
    """Days of a monthly recurrence that some months do not have."""
    frequency, days = find_node(trigger, "frequency"), find_node(trigger, "schedule", "month_days")
    if not isinstance(frequency, Scalar) or frequency.text.lower() != "month":
        return
    for day in days.items if isinstance(days, Sequence) else [days]:
        if isinstance(day, Scalar) and type(day.value) is int and day.value in _LACKING:
            message = f"the schedule skips {_LACKING[day.value]}: `month_days` has {day.value}"
            yield Problem("schedule-skips-months", day.span, message, "write 28")


def _list_fields(job: Job) -> list[Field[Argument]]:
    return [*job.inputs.values(), *(field for step in job.steps.values() for field in step.inputs.values())]


def _find_labels(job: Job, help_: str = "") -> Iterator[Problem]:
    for value in (field.value for field in _list_fields(job)):
        path = value.path if isinstance(value, Data) else None
        if path is not None and path.span is not None and _LABEL.fullmatch(str(path.value)):
            shown = shorten(str(path.value), 60)
            message = f"the schedule keeps the version that `{shown}` is when the schedule is created"
            yield Problem("schedule-keeps-version", path.span, message, _NEW_LABEL + help_)


def _find_same_rows(job: Job, *related: Related, help_: str = "", looks: bool = False) -> Iterator[Problem]:
    fields = _list_fields(job)
    reasons = [_explain_kept(field.value, looks=looks) for field in fields]
    if "" in reasons:
        return
    for field, reason in zip(fields, reasons, strict=True):
        path = field.value.path if isinstance(field.value, Data) else None
        if reason and path is not None and path.span is not None:
            shown = shorten(str(path.value), 60)
            message = f"each run of the schedule trains on the same rows: `{shown}` {reason}"
            yield Problem("schedule-repeats-data", path.span, message, _NEW_DATA + help_, related)
            return


def _explain_kept(argument: Argument, *, looks: bool = False) -> str | None:
    """Why data never changes; empty where it may, None where an argument is not data.

    A look reads the newest version of data that the workspace has.
    """
    if isinstance(argument, Literal):
        is_reference = isinstance(argument.value, str) and classify(argument.value) in ("asset", "web")
        return "" if is_reference else None
    if not isinstance(argument, Data):
        return None
    text = str(argument.path.value) if argument.path is not None else ""
    if text and "${{" not in text and classify(text) == "local":
        return "is uploaded when the schedule is created"
    return "is one version" if _PINNED.fullmatch(text) and not looks else ""
