"""The command sets a different learning rate than the DeepSpeed configuration."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Related
from worldsize.documents.yaml.nodes import find_node
from worldsize.rules.shared import deepspeed as _deepspeed
from worldsize.rules.shared.replicas import read_flag


def check_launch(context: Tree, launch: Launch) -> Iterator[Finding]:
    flag = read_flag(launch, "lr", "learning_rate")
    if flag is None or (span := launch.span(flag[1])) is None:
        return
    for root in _deepspeed.find_configs(context, launch):
        rate = find_node(root, "optimizer", "params", "lr")
        value = _deepspeed.read_number(rate)
        if rate is not None and value is not None and value != flag[0]:
            message = f"the learning rate is {flag[0]:g} here and {value:g} in the DeepSpeed configuration"
            related = (Related(rate.span, "the rate of the configuration"),)
            yield Finding(span, message, f"write {value:g}, or remove one of the two", related=related)
