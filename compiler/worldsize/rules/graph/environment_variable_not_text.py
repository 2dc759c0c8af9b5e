"""YAML 1.1 changes the value of an environment variable."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.fields import read_entries
from worldsize.azureml.model import Step
from worldsize.base.problem import Finding, Fix
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    for key, variable in read_entries(step.environment_variables).items():
        node = variable.node
        if not isinstance(node, Scalar) or node.value is None or isinstance(node.value, str):
            continue
        read = str(node.value)
        if read != node.text:
            quoted = f'"{node.text}"'
            message = f"`{key}: {node.text}` is read as `{read}`, not as the text `{node.text}`"
            fix = Fix(node.span, quoted, safe=False)  # the script may rely on what it gets today
            yield Finding(node.span, message, f"quote it: {quoted}", fix=fix)
