"""``sweep:`` of a step as the sweep node that it is compiled to, and what its trials derive by themselves."""

from __future__ import annotations

from worldsize.azureml.model import Field, Literal
from worldsize.base.suggest import did_you_mean
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar
from worldsize.planning.model import PlannedSweep, StepPlan
from worldsize.resolving import plan_values
from worldsize.resolving.quality_gate import produced
from worldsize.resolving.state import ResolveState
from worldsize.spec.model import Step

# What a training component derives in each trial when it is given 0, and what it needs for that.
_RATE = "learning_rate"
_BATCHES = ("global_batch_size", "gradient_accumulation_steps")
_REFERENCE, _RULE = "reference_batch_size", "learning_rate_rule"
_START = "reference_learning_rate"
# Quantities that a step does not use when it is given the ones above.
_COUNTED = frozenset({"kappa", "steps_per_epoch", "total_steps", "warmup_steps", "rule", "optimizer"})


def compile_sweep(step: Step) -> Node | None:
    """The mapping that rules and the runner read as a sweep node: ``sweep:`` with the step's time limit."""
    if step.sweep is None:
        return None
    node, limit = step.sweep.node, step.timeout
    limits = node.get("limits")
    if limit is None or not isinstance(limits, Mapping) or "timeout" in limits:
        return node
    assert isinstance(limit.node, Scalar)
    key = Scalar(limit.node.source, limit.node.start, limit.node.end, "timeout")
    longer = Mapping(
        limits.source, limits.start, limits.end, [*limits.entries, (key, limit.node)], limits.flow
    )
    entries = [(name, longer if value is limits else value) for name, value in node.entries]
    return Mapping(node.source, node.start, node.end, entries, node.flow)


def derive_in_trials(state: ResolveState, step: str) -> None:
    """Let the trials derive what differs between them; report what their step cannot derive."""
    plan = state.step_plan(step)
    sweep = plan.sweep if plan is not None else None
    if plan is None or sweep is None or plan.training is None:
        return
    able = _can_derive(state, step)
    command = state.spec.steps[step].command
    in_text = {named.port for named in plan_values.plan_expressions(command.value if command else None)}
    ports = state.ports(step).keys() - in_text - _COUNTED  # what the text names is reported there
    varying = [name for name in sweep.varying if name in ports]
    wrong = next((name for name in varying if not able and name != "warmup_epochs"), None)
    if wrong is not None:
        _report(state, step, sweep, wrong)
        return
    if _RATE in varying:
        factor = {"linear": f"{_START} × κ", "sqrt": f"{_START} × √κ"}.get(plan.training.rule, _START)
        _set(state, step, plan, rate=f"derived in each trial: {factor} of its batch")
    elif _RATE in sweep.searched and able and plan.training.warmup_epochs:
        # The warm-up starts from what the swept rate is for the reference batch, which the trial derives.
        _set(state, step, plan, rate=None)
    for name in varying:
        _derive(state, step, sweep, name)


def _derive(state: ResolveState, step: str, sweep: PlannedSweep, name: str) -> None:
    """Give an input that differs between trials what they derive it from."""
    if name in _BATCHES:
        _give(state, step, name, 0, "derived in each trial")
    elif name == "batch_size_per_device":
        _give(state, step, _BATCHES[1], 0, "derived in each trial")
        most = max(int(trial.inputs[name]) for trial in sweep.trials)
        _give(state, step, name, most, "at most; each trial takes the largest that divides its batch")
    elif name == "warmup_epochs":
        longest = max(float(trial.inputs[name]) for trial in sweep.trials)
        _give(state, step, name, longest, "of the largest batch")


def _can_derive(state: ResolveState, step: str) -> bool:
    return {_REFERENCE, _RULE} <= state.ports(step).keys()


def _set(state: ResolveState, step: str, plan: StepPlan, *, rate: str | None) -> None:
    """Give the trials the reference and the rule, and with ``rate`` a learning rate of 0: to be derived."""
    training = plan.training
    assert training is not None
    _give(state, step, _REFERENCE, training.reference_batch_size, "given as scale.reference")
    _give(state, step, _RULE, training.rule, None)
    if rate is not None:
        _give(state, step, _RATE, 0, rate)
    else:
        state.arguments[step].pop(_START, None)
        state.templates.get(step, {}).pop(_START, None)


def _give(state: ResolveState, step: str, name: str, value: float | str, comment: str | None) -> None:
    state.arguments[step][name] = Field(Literal(value), comment=comment)
    state.templates.get(step, {}).pop(name, None)  # it does not follow the plan of one trial


def check_commands(state: ResolveState, step: str) -> None:
    """Report ``${{plan.x}}`` of a command, variable or input that differs between the trials."""
    plan, spec_step = state.step_plan(step), state.spec.steps[step]
    if plan is None or plan.sweep is None:
        return
    texts = [spec_step.command, *spec_step.environment_variables.values(), *spec_step.with_.values()]
    for located in (text for text in texts if text is not None):
        for expression in plan_values.plan_expressions(located.value):
            name = expression.port or ""
            if name in plan.sweep.searched:
                what, help_ = "is searched over", f"write `${{{{search_space.{name}}}}}`"
            elif name in plan.sweep.varying:
                decided = (
                    ", ".join(f"`{name}`" for name in plan.sweep.trials[0].values)
                    if plan.sweep.trials
                    else ""
                )
                what = f"follows {decided or '`reference_learning_rate`'}, which is searched over"
                help_ = (
                    f"search over `{name}` too, or pass `${{{{plan.reference_batch_size}}}}` and"
                    " `${{plan.reference_learning_rate}}` and derive it in the script"
                )
            else:
                continue
            message = f"`{expression}` has one value for all trials, but it {what}"
            span = located.subspan(expression.start, expression.end)
            state.report("sweep-not-planned", span, message, help_)


def check_sweep(state: ResolveState, step: str) -> None:
    """Report a sweep of what is no command, variables that a trial cannot have, and an unknown metric."""
    spec_step, component = state.spec.steps[step], state.components.get(step)
    sweep = spec_step.sweep
    if sweep is None:
        return
    if component is not None and component.type != "command":
        message = f"step `{step}` is a {component.type} component, and only a command can be swept"
        state.report("sweep-not-planned", sweep.span, message, "move `sweep:` into a step of that component")
    for located in spec_step.environment_variables.values():
        if isinstance(located.value, str) and "parent.inputs" in located.value:
            message = "a trial of a sweep has no variables that are bound to inputs of the pipeline"
            help_ = "pass it as an input of the command"
            state.report("binding-in-text", located.span, message, help_)
    metrics = produced(state, step)
    if metrics is not None and sweep.primary_metric.value not in metrics:
        metric = sweep.primary_metric
        message = f"step `{step}` never logs `{metric.value}`"
        state.report("sweep-metric-not-logged", metric.span, message, did_you_mean(metric.value, metrics))


def _report(state: ResolveState, step: str, planned: PlannedSweep, name: str) -> None:
    spec_step = state.spec.steps[step]
    sweep = spec_step.sweep
    assert sweep is not None
    decided = next(iter(planned.trials[0].values)) if planned.trials else _START
    component = spec_step.uses.value if spec_step.uses is not None else step
    message = (
        f"`{name}` follows `{decided}`, which is searched over, but `{component}` cannot derive it in a trial"
    )
    help_ = f"search over `{name}` as well, or declare `{_REFERENCE}` and `{_RULE}` in the component"
    span = sweep.search_space[decided].key_span
    state.report("sweep-not-planned", span, message, help_)
