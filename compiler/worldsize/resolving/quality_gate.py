"""Quality gates: ``when:`` and ``on_fail:`` of a step as inputs of a component that declares them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Binding, Field, Literal
from worldsize.base.problem import Related
from worldsize.base.span import Span
from worldsize.base.suggest import closest, did_you_mean
from worldsize.base.wording import quoted_list
from worldsize.facts.built_in_components import find_facts
from worldsize.planning.memory.workload import SOURCE_TASKS, is_sharding
from worldsize.resolving.state import ResolveState
from worldsize.spec.model import Located, Spec
from wsmetrics.names import AT_THRESHOLD, METRICS, SHARES
from wsshards.terms import LANGUAGE_MODEL
from wssources.media_options import BYTES_TOKENIZER
from wssources.planned_rows import default_source

_OF_EACH = ("precision", "recall", "f1", "mse", "rmse", "mae", "r2")  # also of each class or target
_AT_LEAST = re.compile(r"\s*(>=?)\s*([0-9]+(?:\.[0-9]+)?)\s*")
_SIZE = "size"  # of a model in bytes, which `compare` measures itself
_INPUTS = {"when": "gate", "on_fail": "on_fail"}  # by the spec's key the input that carries it


def set_gate_inputs(state: ResolveState, step: str) -> None:
    """Give a step the inputs ``gate`` and ``on_fail`` that its ``when:`` and ``on_fail:`` stand for."""
    spec_step = state.spec.steps[step]
    component = state.components.get(step)
    if component is None or not (spec_step.when or spec_step.on_fail):
        return
    conditions = list(spec_step.when.items())
    if conditions:
        text = "; ".join(f"{metric} {condition.value}" for metric, condition in conditions)
        _set(state, step, "when", text, conditions[0][1].key_span)
    if spec_step.on_fail:
        _set(state, step, "on_fail", spec_step.on_fail.value, spec_step.on_fail.key_span)


def check_metrics(state: ResolveState, step: str) -> None:
    """Report conditions on metrics that the step whose ``metrics`` are read does not produce."""
    metrics = state.arguments[step].get("metrics")
    if metrics is None or not isinstance(metrics.value, Binding):
        return
    source = metrics.value.expression.step or ""
    names = produced(state, source)
    if names is None:
        return
    task = _find_task(state, source)
    measured = _of_task(names, task)
    if _has_tokens(state, source):
        measured = [name for name in measured if name != "bits_per_byte"]
    conditions = state.spec.steps[step].when.items()
    named = [(metric, condition.key_span, condition) for metric, condition in conditions]
    for metric, place, condition in [*named, *_list_promoted(state.spec)]:
        if metric in measured or _is_of_one_class(metric, names, measured):
            if condition is not None:
                _check_reachable(state, metric, condition)
            continue
        what = f" for the task {task}" if metric in names else ""
        what = (
            " of tokens, which are not bytes"
            if metric == "bits_per_byte" and task == LANGUAGE_MODEL
            else what
        )
        message = f"step `{source}` does not measure `{metric}`{what}"
        decided = [name + AT_THRESHOLD for name in _OF_EACH[:3] if "precision" in measured]
        near = closest(metric, decided)  # of two classes only, so not listed
        help_ = did_you_mean(metric, [near] if near else measured)
        help_ = help_ or f"it measures {quoted_list(measured, limit=12)}"
        state.report("gate-metric-unknown", place, message, help_)


def _list_promoted(spec: Spec) -> Iterator[tuple[str, Span, None]]:
    """The metrics that ``retrain.promote`` names, with their places."""
    promote = spec.retrain.promote if spec.retrain is not None else None
    if promote is not None and promote.metric is not None:
        yield promote.metric.value, promote.metric.span, None
    for metric, rule in (promote.guards if promote is not None else {}).items():
        if metric != _SIZE:
            yield metric, rule.key_span, None


def _check_reachable(state: ResolveState, metric: str, condition: Located[str]) -> None:
    """Report a condition that no model meets, such as an accuracy in percent."""
    bound = _AT_LEAST.fullmatch(condition.value)
    if not {metric, metric.partition("_")[0]} & {*SHARES} or bound is None or float(bound[2]) <= 1:
        return
    message = f"`{metric}` is at most 1, so no model has `{metric} {condition.value}`"
    share = f"{float(bound[2]) / 100:.6g}"
    help_ = f"write `{bound[1]} {share}`" if float(bound[2]) <= 100 else "write a number below 1"
    state.report("gate-never-passes", condition.span, message, help_)


def _of_task(metrics: list[str], task: str | None) -> list[str]:
    """The metrics that a component for all tasks has for one of them; all where the task is unknown."""
    if task not in METRICS or not _is_for_all_tasks(metrics):
        return metrics
    return [name for name in metrics if name in METRICS[task]]


def _has_tokens(state: ResolveState, step: str) -> bool:
    """Whether the shards that a step reads hold tokens of a tokenizer, and not bytes."""
    source = state.shards_of(step)
    inputs = state.spec.steps[source].with_ if source and source in state.spec.steps else {}
    tokenizer = inputs["tokenizer"].value if "tokenizer" in inputs else BYTES_TOKENIZER
    return isinstance(tokenizer, str) and tokenizer != BYTES_TOKENIZER and "${{" not in tokenizer


def _is_for_all_tasks(metrics: list[str]) -> bool:
    return all({*metrics}.issuperset(names) for names in METRICS.values())


def _is_of_one_class(metric: str, metrics: list[str], measured: list[str]) -> bool:
    """Whether ``evaluate`` may measure it of one class or target, whose names only the data has."""
    base = metric.partition("_")[0]
    return _is_for_all_tasks(metrics) and metric not in metrics and base in _OF_EACH and base in measured


def _find_task(state: ResolveState, step: str) -> str | None:
    """The task of the shards that a step reads, where it is known."""
    source = state.shards_of(step)
    if source is None:
        return None
    tasks = [state.tasks[reader][0] for reader in state.shard_readers(source) if reader in state.tasks]
    if tasks:
        return tasks[0]
    component, inputs = state.components[source], state.spec.steps[source].with_
    if component is None or not is_sharding(component):
        return None
    values = {"source": default_source(has_data="data" in inputs)}
    values |= {name: inputs[name].value for name in ("task", "source") if name in inputs}
    written, data = values.get("task"), values["source"]
    text = inputs["text"].value if "text" in inputs else None
    if isinstance(written, str) and written in METRICS:
        return written
    if "tokenizer" in inputs and text is None:  # files of text, of which each is a document
        return LANGUAGE_MODEL
    return SOURCE_TASKS.get(str(data))


def produced(state: ResolveState, step: str) -> list[str] | None:
    """The metrics that a step can produce, or None where that is not known.

    A model of the user's own may bring metrics of its own.
    """
    facts = find_facts(state.components.get(step))
    if facts is None:
        return None
    model = state.spec.steps[step].with_.get(facts.code_input or "")
    is_users = model is not None and str(model.value) not in facts.built_in_models
    return None if is_users else list(facts.metrics)


def _set(state: ResolveState, step: str, key: str, text: str, span: Span) -> None:
    name = _INPUTS[key]
    setting = state.spec.steps[step].with_.get(name)
    if setting is not None:
        message = f"`{name}` is given here and by `{key}:` of the step, as `{text}`"
        related = Related(span, f"`{key}:`")
        state.report("gate-given-twice", setting.key_span, message, f"keep `{key}:`, or this input", related)
        return
    if name in state.ports(step):
        state.arguments[step][name] = Field(Literal(text), span)
        return
    uses = state.spec.steps[step].uses
    message = f"`{uses.value if uses else step}` has no input `{name}`, so it cannot apply `{key}`"
    help_ = "move it to the step that registers the model, or declare that input in the component"
    state.report("gate-not-supported", span, message, help_)
