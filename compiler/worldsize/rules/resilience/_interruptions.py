"""Interruptions of training: time limits, where checkpoints go, and what evictions cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from worldsize.azureml import command_line
from worldsize.azureml.command_line import Word
from worldsize.azureml.fields import read_command, read_member
from worldsize.azureml.launch import Launch, read_launches
from worldsize.azureml.model import Step
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Confidence, Finding, Problem, relate
from worldsize.base.source import Source
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.shared.prices import describe_place, find_preemptible_tier, find_prices

if TYPE_CHECKING:
    from worldsize.facts.prices import Price
    from worldsize.planning.cost import Evictions
    from worldsize.resolving.planned import Planned


_RESUMES = re.compile(r"checkpoint|ckpt|resume|restore|load_state|nebula|BackupAndRestore", re.IGNORECASE)
_ENDLESS = 100.0  # times the training without evictions
_HELP = "save checkpoints into an output and resume from the newest, or use dedicated instances"


def check_planned(context: Tree, planned: Planned) -> Iterator[Problem]:
    for launch in read_launches(context, planned.job):
        yield from _judge(context, launch, planned)


def check_launch(context: Tree, launch: Launch) -> Iterator[Problem]:
    if launch.job.clusters is None:  # else it is a spec's, which is judged with its plan
        yield from _judge(context, launch, None)


def _judge(context: Tree, launch: Launch, planned: Planned | None) -> Iterator[Problem]:
    tier = find_preemptible_tier(launch)
    sources = launch.scripts(context) if tier is not None else []
    if tier is None or _saves_checkpoints(launch, sources):
        return
    span = launch.compute_span or launch.fallback_span
    related = relate(tier.span, "the tier")
    dearer = _compare_costs(context, launch, planned)
    if dearer is not None:
        message = f"`{tier.word}` without checkpoints costs more than dedicated: {dearer}"
        confidence: Confidence | None = None if sources else "possible"
        yield Problem("low-priority-costs-more", span, message, _HELP, related, confidence=confidence)
    elif sources:
        message = (
            f"`{tier.word}` instances may be taken away at any time,"
            " and nothing here saves or loads checkpoints"
        )
        yield Problem("low-priority-without-resume", span, message, _HELP, related)


def _saves_checkpoints(launch: Launch, sources: list[Source]) -> bool:
    """Whether the step or its scripts mention checkpoints; True if the command is unknown."""
    component, command = launch.step.component, read_command(launch.step.component)
    if component is None or not command:
        return not sources
    words = [command, *component.inputs, *component.outputs, *launch.step.outputs]
    return any(_RESUMES.search(text) for text in [" ".join(words), *(source.text for source in sources)])


def _compare_costs(context: Tree, launch: Launch, planned: Planned | None) -> str | None:
    """The expected costs of the training on both tiers, if low priority is dearer wherever it may run.

    None where the length of the training or a price is not known, and where an hour of low priority
    is no cheaper.
    """
    plan = planned.step_plans.get(launch.step.name) if planned is not None else None
    if planned is None or plan is None or plan.training is None or launch.size is None:
        return None
    size = launch.size.name
    pairs = find_prices(context.prices(), (size, "dedicated"), (size, "low_priority"))
    if not pairs or all(low.amount >= dedicated.amount for dedicated, low in pairs):
        return None
    from worldsize.planning import cost  # few steps come this far
    from worldsize.resolving.step_estimates import estimate_step

    total = estimate_step(planned, launch.step.name, plan).total_seconds
    if total is None:
        return None
    count = plan.topology.instance_count
    evictions = cost.Evictions(cost.mean_seconds_between_evictions(count))
    if not all(cost.low_priority_costs_more(total.expected, count, *pair, evictions) for pair in pairs):
        return None
    return _describe_costs(total.expected, count, pairs, evictions)


def _describe_costs(
    seconds: float, count: int, pairs: list[tuple[Price, Price]], evictions: Evictions
) -> str:
    from worldsize.planning.cost import cost_training

    dedicated, low = pairs[0]
    whole = cost_training(seconds, count, dedicated)
    evicted = cost_training(seconds, count, low, evictions)
    every = f"evictions every {evictions.mean_seconds / 3600:.2g} h"
    where = describe_place(pairs)
    if evicted.seconds > _ENDLESS * seconds:
        return f"with {every}, {_show(whole.hours)} h of training are not expected to finish"
    return (
        f"{every} turn {_show(whole.hours)} h into {_show(evicted.hours)} h, {_show(evicted.amount)}"
        f" {evicted.currency} instead of {_show(whole.amount)} {whole.currency} {where}"
    )


def _show(value: float | None) -> str:
    """Two digits: the estimate is not more exact."""
    return f"{float(f'{value:.2g}'):,.6g}"


def check_low_priority_saves_nothing(context: Tree, launch: Launch) -> Iterator[Finding]:
    size, tier = launch.size, find_preemptible_tier(launch)
    if size is None or tier is None:
        return
    pairs = find_prices(context.prices(), (size.name, "dedicated"), (size.name, "low_priority"))
    if pairs and all(low.amount >= dedicated.amount for dedicated, low in pairs):
        price = pairs[0][1]
        message = (
            f"`{tier.word}` instances of `{size.name}` cost as much as dedicated ones:"
            f" {price.amount:.5g} {price.currency} an hour {describe_place(pairs)}"
        )
        related = relate(tier.span, "the tier")
        help_ = "use dedicated instances, which Azure does not evict"
        yield Finding(launch.compute_span or launch.fallback_span, message, help_, related=related)


_OPTION = re.compile(r"--?[\w-]+")
_KEPT = re.compile(r"checkpoint|ckpt", re.IGNORECASE)
_PATH = re.compile(r"(?P<quote>[\"']?)(?P<path>(?:\./)?outputs(?:/[\w./-]*)?)(?P=quote)", re.IGNORECASE)


def check_checkpoints_in_outputs(context: Tree, step: Step) -> Iterator[Finding]:
    command = step.component.command if step.component else None
    node = command.node if command is not None else None
    if isinstance(node, Scalar):
        yield from context.all_of(_judge_command, node)  # steps of one component share its command


def _judge_command(_context: Tree, node: Scalar) -> Iterator[Finding]:
    for option, value in _list_options(node.text):
        match = _PATH.fullmatch(value.text) if _KEPT.search(option) else None
        if match is None:
            continue
        message = f"checkpoints go to `{match['path']}`, which a restarted or resubmitted job does not see"
        help_ = "add `outputs: {checkpoints: {type: uri_folder}}`"
        help_ += f", and write `{option} ${{{{outputs.checkpoints}}}}`"
        start, end = match.span("path")
        yield Finding(node.subspan(value.start + start, value.start + end), message, help_)


def _list_options(text: str) -> Iterator[tuple[str, Word]]:
    """Options of either number of dashes, with the word behind each."""
    for command in command_line.parse_commands(text):
        for word, after in zip_longest(command.words, command.words[1:]):
            option, equals, value = word.text.partition("=")
            if _OPTION.fullmatch(option) is None:
                continue
            if equals:
                yield option, Word(value, word.start + len(option) + 1, word.end)
            elif after is not None:
                yield option, after


def check_multi_node_without_timeout(context: Tree, launch: Launch) -> Iterator[Finding]:
    step, count = launch.step, launch.instances.value
    has_gpus = launch.size is not None and launch.size.gpus > 0  # CPU nodes cost little, and rarely hang
    if count is None or count < 2 or not has_gpus or read_member(step.limits, "timeout") is not None:
        return
    if step.type != "command":
        return  # a sweep has limits of its own
    message = f"{count} GPU instances run step `{step.name}` with no time limit"
    help_ = f"add {launch.job.keys.timeout} to the step: the longest that it may take, in seconds"
    yield Finding(launch.instances.span or launch.fallback_span, message, help_)
