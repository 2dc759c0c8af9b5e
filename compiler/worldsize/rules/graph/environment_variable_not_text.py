"""An environment variable has a value that YAML 1.1 reads as something else than what is written.

``yes`` and ``true`` are truth values, ``010`` is the number 8, ``1:30`` is 90.

Why: The process gets another text than the one in the file.

Bad::

    DEBUG: yes

Good::

    DEBUG: "yes"

Fix: Quote the value.

Source: YAML 1.1, https://yaml.org/type/.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Step
from worldsize.base.problem import Fix, Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping, Scalar

RULE = Rule(
    "WS635",
    "environment-variable-not-text",
    "warning",
    since="0.1.0",
    summary="a variable whose value YAML changes",
)


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    block = step.environment_variables
    if block is None or not isinstance(block.node, Mapping):
        return
    for key, node in block.node.items():
        if not isinstance(node, Scalar) or node.value is None or isinstance(node.value, str):
            continue
        read = str(node.value)
        if read != node.text:
            quoted = f'"{node.text}"'
            message = f"`{key.text}: {node.text}` is read as `{read}`, not as the text that stands there"
            fix = Fix(node.span, quoted)
            yield RULE.problem(node.span, message, f"quote it: {quoted}", fix=fix)
