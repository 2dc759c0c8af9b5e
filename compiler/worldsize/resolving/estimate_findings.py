"""Reports what sizes and estimates say against a spec.

Instances that make nothing faster, `arithmetic:` of another step, and what a Hugging Face model lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from worldsize.azureml.cron import check_cron, next_times
from worldsize.azureml.model import Port
from worldsize.azureml.model import Step as GraphStep
from worldsize.base.problem import Problem, relate
from worldsize.base.suggest import closest
from worldsize.base.wording import format_duration, plural, quoted_list, show_number
from worldsize.facts import vm_sizes
from worldsize.planning.memory import hugging_face
from worldsize.planning.memory.workload import find_sharding, is_trainer, literal_inputs
from worldsize.planning.model import StepPlan
from worldsize.planning.options import parse_count
from worldsize.resolving.planned import Planned

if TYPE_CHECKING:
    from worldsize.planning.estimates.model import Case

SLUG = "more-instances-not-faster"


def check_networks(planned: Planned) -> Iterator[Problem]:
    """Report steps on instances without RDMA that wait for their network, if fewer instances are as fast."""
    for name, plan in planned.step_plans.items():
        pinned = planned.spec.steps[name].instance_count
        if pinned is None or not _may_be_slow(planned, plan):
            continue
        case = _import_estimates().find_case(planned, name, plan)
        compared = None if isinstance(case, str) else _compare(case)
        if compared is not None:
            message, help_ = compared
            yield Problem(SLUG, pinned.span, f"step `{name}` waits for its network: {message}", help_)


def _may_be_slow(planned: Planned, plan: StepPlan) -> bool:
    """Whether a step trains on several instances of a VM size without RDMA."""
    topology = plan.topology
    if plan.training is None or topology.instance_count < 2 or topology.instance_type is None:
        return False
    size = vm_sizes.lookup(topology.instance_type, planned.vm_sizes)
    return size is not None and size.rdma is False


def _compare(case: Case) -> tuple[str, str] | None:
    """Message and help for a case that fewer instances train as fast; None if none do."""
    from worldsize.planning.estimates.estimate import estimate

    answer = estimate(case.workload, case.training, case.cluster)
    if answer is None or answer.bound != "network":
        return None
    count, speed = case.cluster.instance_count, answer.samples_per_second
    for fewer in range(1, count):
        work = case.training.accumulation * count
        if work % fewer:
            continue  # the global batch would change
        training = replace(case.training, accumulation=work // fewer)
        other = estimate(case.workload, training, replace(case.cluster, instance_count=fewer))
        if other is not None and other.samples_per_second.expected >= speed.expected:
            share = answer.parts.communication / answer.parts.seconds
            faster = _show(other.samples_per_second.expected)
            message = (
                f"{plural(count, 'instance')} train {_show(speed.expected)} samples a second,"
                f" {fewer} with the same global batch {faster};"
                f" exchanges take {share:.0%} of a step".replace("%", " %")
            )
            return message, f"write `instance_count: {fewer}`, or use a VM size with InfiniBand"
    return None


def _import_estimates() -> ModuleType:
    """The module that estimates steps: few specs come this far."""
    from worldsize.resolving import step_estimates

    return step_estimates


_PERIODS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}


def check_schedule(planned: Planned) -> Iterator[Problem]:
    """Report a schedule that starts the next run before one can end; a look starts nothing beside a run."""
    schedule = planned.spec.schedule
    rhythm = None if schedule is None else schedule.cron or schedule.recurrence
    period = None if rhythm is None else _read_period(rhythm.value)
    if rhythm is None or period is None or planned.plan is None or planned.spec.retrain is not None:
        return
    estimates = _import_estimates().estimate_steps(planned).values()
    times = [estimate.total_seconds for estimate in estimates if estimate.total_seconds is not None]
    if sum(time.low for time in times) > period:
        often, long = format_duration(period), format_duration(sum(time.expected for time in times))
        message = f"the schedule starts a run every {often}, and one trains for about {long}"
        help_ = "let it start less often, or add `retrain:`, which starts no run beside another"
        yield Problem("schedule-overtakes-itself", rhythm.span, message, help_)


def _read_period(rhythm: Any) -> float | None:
    """The shortest time between two firings in seconds; None if it is longer than a day, or unknown."""
    if isinstance(rhythm, str):
        moments = [] if check_cron(rhythm) else next_times(rhythm, datetime(2026, 1, 1), 50)
        gaps = ((later - earlier).total_seconds() for earlier, later in pairwise(moments))
        return min((gap for gap in gaps if gap <= _PERIODS["day"]), default=None)
    period, interval = _PERIODS.get(str(rhythm.get("frequency")).lower()), rhythm.get("interval")
    if period is None or not isinstance(interval, int) or rhythm.get("schedule"):
        return None  # hours are chosen one by one
    return period * max(1, interval)


def _show(speed: float) -> str:
    """Two digits: the estimate knows no more."""
    return show_number(float(f"{speed:.2g}"))


_REFUSED = "strategy-option-refused"
_LARGEST_TOKENIZER = 2**24  # bytes
_HEADS = frozenset({"lm_head", "score", "classifier"})  # which the task decides


def check_models(planned: Planned) -> Iterator[Problem]:
    """Report rows, tokens and layers that a Hugging Face model does not have, as its trainer does."""
    for step in planned.job.steps.values():
        model = literal_inputs(step, ("model",))["model"]
        if not str(model).startswith(hugging_face.PREFIX) or not is_trainer(step):
            continue
        config = planned.read_config(step)
        if config is None:
            continue
        inner = config["text_config"] if isinstance(config.get("text_config"), dict) else config
        source = find_sharding(planned.job, step)
        if source is not None:
            yield from _check_rows(source, model, inner)
            yield from _check_tokens(planned, source, model, inner.get("vocab_size"))
        yield from _check_targets(step, model, config)


def _check_rows(source: GraphStep, model: str, config: Mapping[str, Any]) -> Iterator[Problem]:
    length = parse_count(literal_inputs(source, ("sequence_length",))["sequence_length"])
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if not length or not isinstance(positions, int) or not 0 < positions < length:
        return
    argument = source.inputs.get("sequence_length")
    message = f"rows have {length:,} tokens, but `{model}` has {positions:,} positions"
    span = argument.span if argument is not None else source.span
    if span is not None:
        yield Problem(_REFUSED, span, message, f"write `sequence_length: {positions}` or less")


def _check_tokens(planned: Planned, source: GraphStep, model: str, vocabulary: Any) -> Iterator[Problem]:
    tokenizer, folder = source.inputs.get("tokenizer"), planned.find_data(source, "data")
    name = literal_inputs(source, ("tokenizer",))["tokenizer"]
    if tokenizer is None or tokenizer.span is None or folder is None or not isinstance(vocabulary, int):
        return
    content = planned.read_json(folder / str(name), _LARGEST_TOKENIZER) or {}
    inner, added = content.get("model"), content.get("added_tokens")
    tokens = inner.get("vocab") if isinstance(inner, dict) else None
    if not isinstance(tokens, dict | list):
        return
    contents = [token.get("content") for token in added or () if isinstance(token, dict)]
    count = len({*tokens, *contents}) if isinstance(tokens, dict) else len(tokens)
    if count > vocabulary:
        message = f"`{name}` has {count:,} tokens, but `{model}` has a vocabulary of {vocabulary:,}"
        yield Problem(_REFUSED, tokenizer.span, message, "put the model's own `tokenizer.json` into the data")


def _check_targets(step: GraphStep, model: str, config: Mapping[str, Any]) -> Iterator[Problem]:
    targets, argument = (
        literal_inputs(step, ("lora_targets",))["lora_targets"],
        step.inputs.get("lora_targets"),
    )
    if argument is None or argument.span is None or not isinstance(targets, str):
        return
    layers = hugging_face.list_layers(config)
    leaves = {layer.rpartition(".")[2] for layer in layers}
    for target in (part.strip() for part in targets.split(",")):
        if layers and target and target not in _HEADS and not hugging_face.is_target(layers, target):
            message = f"`{target}` in `lora_targets` is not a layer of `{model}` that LoRA adapts"
            help_ = closest(target, leaves)
            listed = f"its layers: {quoted_list(sorted(leaves), 12)}"
            yield Problem(
                _REFUSED, argument.span, message, f"did you mean `{help_}`? {listed}" if help_ else listed
            )


ARITHMETIC = "arithmetic-contradicts-step"
_WORDS = {True: "blocks", False: "none"}  # of the input `activation_checkpointing`


def check_arithmetic(planned: Planned) -> Iterator[Problem]:
    """Report each key of `arithmetic:` whose value is not what the step computes with."""
    for name, plan in planned.step_plans.items():
        scale, step = planned.spec.steps[name].scale, planned.job.steps[name]
        if scale is None or not scale.arithmetic or plan.training is None:
            continue
        for key, used in _read_used(step, plan, planned).items():
            stated = scale.arithmetic.get(key)
            if stated is None or stated.value == used:
                continue
            message = f"`{key}` is {_word(stated.value)} under `arithmetic`, {_word(used)} in step `{name}`"
            argument = step.inputs.get(key)
            span = argument.span if argument is not None else None
            related = relate(span, "what decides it")
            yield Problem(ARITHMETIC, stated.span, message, _advise(step, key, stated.value), related)


def _read_used(step: GraphStep, plan: StepPlan, planned: Planned) -> dict[str, Any]:
    """What a built-in component computes with, by key of `arithmetic:`; nothing of other components."""
    from worldsize.planning.estimates.built_in import describe_setup  # few specs state it
    from worldsize.planning.memory.step_memory import read_setup

    setup = read_setup(step, plan, planned.vm_sizes)
    if setup is None:
        return {}
    training = describe_setup(setup)
    used = {
        "strategy": training.strategy,
        "zero_stage": training.zero_stage,
        "activation_checkpointing": training.recomputation != "none",
    }
    # Which precision `auto` is depends on the GPU.
    return used | ({"precision": training.precision} if plan.topology.instance_type is not None else {})


def _advise(step: GraphStep, key: str, value: Any) -> str:
    """What to write: the step's own input where it takes the value."""
    port: Port | None = step.component.inputs.get(key) if step.component is not None else None
    word = _WORDS.get(value, value) if isinstance(value, bool) else value
    if port is None or (port.enum is not None and word not in port.enum.value):
        return f"remove it: `{step.reference.value if step.reference else step.name}` does not take it"
    return f"write `{key}: {word}` under `with:`, or remove it here"


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
