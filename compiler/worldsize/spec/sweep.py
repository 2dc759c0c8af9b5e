"""Checks ``sweep:`` of a step beyond the schema: settings of distributions and policies, limits, inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from worldsize.azureml import literals
from worldsize.azureml import sweep as azureml_sweep
from worldsize.azureml.sweep import BAYESIAN, POLICIES, SETTINGS
from worldsize.base.problem import Problem, Related
from worldsize.base.wording import quoted_list
from worldsize.documents.yaml.nodes import Mapping as MappingNode
from worldsize.documents.yaml.nodes import Sequence
from worldsize.spec.model import Located, Step, Sweep

_EXAMPLES = {
    "values": "[16, 32]",
    "upper": "10",
    "min_value": "0.001",
    "max_value": "0.1",
    "q": "16",
    "mu": "0",
    "sigma": "1",
}
_OF_EVERY_POLICY = ("type", "evaluation_interval", "delay_evaluation")


def check_sweep(step: Step) -> Iterator[Problem]:
    """Report the faults of a step's sweep that passed the schema."""
    sweep = step.sweep
    if sweep is None:
        return
    for name, located in sweep.search_space.items():
        yield from _check_distribution(name, located)
        fixed = step.with_.get(name)
        if fixed is not None:
            unused = (
                "it" if isinstance(fixed.value, dict) else f"`{literals.render_literal(fixed.value)[:40]}`"
            )
            message = f"`{name}` is given under `with:` and searched over, so no trial would use {unused}"
            related = (Related(located.key_span, "searched over here"),)
            help_ = "remove one of the two"
            yield Problem("sweep-given-twice", fixed.key_span, message, help_, related)
    yield from _check_policy(sweep)
    yield from _check_algorithm(sweep)
    yield from _check_limits(step, sweep)


def list_values(located: Located[Any]) -> list[Located[Any]] | None:
    """The values of a distribution, each where it is written; None where they cannot be listed."""
    values = azureml_sweep.list_values(located.value)
    written = located.node.get("values") if isinstance(located.node, MappingNode) else None
    if values is None or located.value["type"] != "choice" or not isinstance(written, Sequence):
        return values and [Located(value, located.key_span, located.key_span) for value in values]
    return [
        Located(value, item.span, located.key_span, item)
        for value, item in zip(values, written.items, strict=True)
    ]


def _check_distribution(name: str, located: Located[Any]) -> Iterator[Problem]:
    block, node = located.value, located.node
    kind = block["type"]
    for setting in SETTINGS[kind]:
        if setting not in block and (kind, setting) != ("choice", "values"):  # a rule reports that one
            message = f"`{kind}` of `{name}` has no `{setting}`"
            help_ = f"add `{setting}: {_EXAMPLES[setting]}`"
            yield Problem("spec-missing-key", located.key_span, message, help_)
    for key in block:
        if key not in (*SETTINGS[kind], "type") and isinstance(node, MappingNode):
            at = node.key(key)
            message = f"`{key}` is not a setting of `{kind}`"
            help_ = f"`{kind}` takes {quoted_list(SETTINGS[kind])}"
            yield Problem("spec-unknown-key", at.span if at else located.span, message, help_)


def _check_policy(sweep: Sweep) -> Iterator[Problem]:
    block = sweep.node.get("early_termination")
    kind = block.get("type") if isinstance(block, MappingNode) else None
    if not isinstance(block, MappingNode) or kind is None:
        return
    word = str(getattr(kind, "value", ""))
    for key, _ in block.entries:
        if key.text not in (*_OF_EVERY_POLICY, *POLICIES.get(word, ())):
            owner = next((name for name, settings in POLICIES.items() if key.text in settings), word)
            message = f"`{key.text}` is a setting of `{owner}`, not of `{word}`"
            yield Problem("spec-unknown-key", key.span, message, f"write `type: {owner}`, or remove it")
    needed = {"bandit": ("slack_factor", "slack_amount"), "truncation_selection": ("truncation_percentage",)}
    wanted = needed.get(word, ())
    if wanted and not any(name in block for name in wanted):
        example = "slack_factor: 0.1" if word == "bandit" else "truncation_percentage: 20"
        message = f"`{word}` has neither " + " nor ".join(f"`{name}`" for name in wanted)
        message = message if len(wanted) > 1 else f"`{word}` has no `{wanted[0]}`"
        yield Problem("spec-missing-key", kind.span, message, f"add `{example}`")


def _check_algorithm(sweep: Sweep) -> Iterator[Problem]:
    for name, located in sweep.search_space.items() if sweep.algorithm == "bayesian" else ():
        kind = located.value["type"]
        if kind not in BAYESIAN:
            message = f"bayesian sampling does not support `{kind}`, the distribution of `{name}`"
            node = located.node.get("type") if isinstance(located.node, MappingNode) else None
            span = node.span if node is not None else located.key_span
            help_ = f"write `sampling_algorithm: random`, or choose one of {quoted_list(BAYESIAN)}"
            yield Problem("sampling-needs-other-distribution", span, message, help_)
    algorithm = sweep.node.get("sampling_algorithm")
    if isinstance(algorithm, MappingNode) and sweep.algorithm != "random":
        for key, _ in algorithm.entries:
            if key.text != "type":
                message = f"`{key.text}` is an option of random sampling, not of `{sweep.algorithm}`"
                yield Problem("spec-unknown-key", key.span, message, "remove it, or write `type: random`")


def _check_limits(step: Step, sweep: Sweep) -> Iterator[Problem]:
    total, at_once = sweep.max_total_trials, sweep.max_concurrent_trials
    if at_once is not None and at_once.value > total.value:
        message = f"`max_concurrent_trials` is {at_once.value}, more than `max_total_trials` {total.value}"
        related = (Related(total.span, "all trials"),)
        help_ = f"write {total.value} or less"
        yield Problem("sweep-limits-contradict", at_once.span, message, help_, related)
    timeout, of_trial = sweep.timeout or step.timeout, sweep.trial_timeout
    if timeout is not None and of_trial is not None and of_trial.value > timeout.value:
        message = (
            f"`trial_timeout` is {of_trial.value} s, longer than the sweep's `timeout` of {timeout.value} s"
        )
        related = (Related(timeout.span, "the whole sweep"),)
        help_ = f"write {timeout.value} or less, or raise `timeout`"
        yield Problem("sweep-limits-contradict", of_trial.span, message, help_, related)
    listed = [list_values(located) for located in sweep.search_space.values()]
    if sweep.algorithm == "grid" and all(listed):
        combinations = math.prod(len(values or ()) for values in listed)
        if combinations > total.value:
            message = (
                f"the grid has {combinations} combinations, but `max_total_trials` is {total.value}:"
                " the last ones are never tried"
            )
            help_ = f"write {combinations}, or `sampling_algorithm: random`"
            yield Problem("sweep-limits-contradict", total.span, message, help_)
