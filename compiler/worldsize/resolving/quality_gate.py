"""Quality gates: ``when:`` and ``on_fail:`` of a step as inputs of a component that declares them."""

from __future__ import annotations

from worldsize.azureml.component import read_tag
from worldsize.azureml.model import Binding, Field, Literal
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.resolving.state import ResolveState

METRICS_TAG = "worldsize_metrics"  # a component's metrics, separated by commas
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
    known = produced(state, source)
    if known is None:
        return
    for metric, condition in state.spec.steps[step].when.items():
        if metric not in known:
            message = f"step `{source}` does not measure `{metric}`"
            state.report("gate-metric-unknown", condition.key_span, message, did_you_mean(metric, known))


def produced(state: ResolveState, step: str) -> list[str] | None:
    """The metrics that a step's component says it can produce, or None where it does not say."""
    component = state.components.get(step)
    text = read_tag(component, METRICS_TAG) if component is not None else None
    return [name.strip() for name in text.split(",")] if text is not None else None


def _set(state: ResolveState, step: str, key: str, text: str, span: Span) -> None:
    name = _INPUTS[key]
    if name in state.ports(step):
        state.arguments[step][name] = Field(Literal(text), span)
        return
    uses = state.spec.steps[step].uses
    message = f"`{uses.value if uses else step}` has no input `{name}`, so it cannot apply `{key}`"
    help_ = "move it to the step that registers the model, or declare that input in the component"
    state.report("gate-not-supported", span, message, help_)
