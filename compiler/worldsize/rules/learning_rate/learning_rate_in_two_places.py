"""The command sets a different learning rate than the DeepSpeed configuration."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, Related
from worldsize.documents.yaml.nodes import Mapping
from worldsize.rules.context import Context
from worldsize.rules.shared import deepspeed as _deepspeed


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    flags = launch.flags("lr", "learning_rate")
    flag_value = launch.number(flags[0]) if len(flags) == 1 else None
    if flag_value is None or flags[0].value is None:
        return
    span = launch.span(flags[0].value)
    for root in _deepspeed.find_configs(context, launch):
        optimizer = root.get("optimizer")
        params = optimizer.get("params") if isinstance(optimizer, Mapping) else None
        rate = params.get("lr") if isinstance(params, Mapping) else None
        value = _deepspeed.read_number(rate)
        if rate is not None and value is not None and value != flag_value and span is not None:
            message = f"the learning rate is {flag_value:g} here and {value:g} in the DeepSpeed configuration"
            related = (Related(rate.span, "the rate of the configuration"),)
            yield Finding(span, message, f"write {value:g}, or remove one of the two", related=related)
