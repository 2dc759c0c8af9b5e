"""Parameter servers for a strategy that does not use them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.launch import Launch, read_input
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context

_MIRRORED = re.compile(r"MultiWorkerMirroredStrategy|CollectiveAllReduceStrategy")
_WITHOUT = "a strategy without parameter servers"


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    servers = launch.servers
    if launch.kind != "tensorflow" or not servers.value or servers.span is None:
        return
    strategy = find_strategy(launch)
    if strategy is None:
        yield from _judge_scripts(context, launch)
    elif strategy != "parameter_server":
        message = f"`parameter_server_count` is {servers.value}, but strategy `{strategy}` uses none"
        help_ = "write `strategy: parameter_server`, or remove `parameter_server_count`"
        setting = launch.step.inputs.get("strategy")
        related = (Related(setting.span, _WITHOUT),) if setting is not None and setting.span else ()
        yield Finding(servers.span, message, help_, related)


def find_strategy(launch: Launch) -> str | None:
    """The strategy of a built-in trainer; None for another component, or if unknown."""
    component = launch.step.component
    if component is None or not {"strategy", "gpt_heads"} <= set(component.inputs):
        return None
    strategy = read_input(launch, "strategy")
    return strategy if isinstance(strategy, str) and "${{" not in strategy else None


def _judge_scripts(context: Context, launch: Launch) -> Iterator[Finding]:
    servers, scripts = launch.servers, launch.scripts(context)
    if servers.span is None or any("ParameterServerStrategy" in source.text for source in scripts):
        return
    for source in scripts:
        match = _MIRRORED.search(source.text)
        if match is not None:
            message = f"`parameter_server_count` is {servers.value}, but the script uses {match.group()}"
            related = (Related(source.span(*match.span()), _WITHOUT),)
            yield Finding(servers.span, message, "remove `parameter_server_count`", related)
            return
