"""``MultiWorkerMirroredStrategy`` is made after other TensorFlow calls.

This is read from the text of the script and of the modules beside it that it imports; nothing is run.

Why: TensorFlow refuses it: collective operations must be configured at program startup.

Bad::

    images = tf.constant(rows)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

Good::

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images = tf.constant(rows)

Fix: Make the strategy the first TensorFlow call of the script.

Source: TensorFlow guide, Multi-worker training with Keras.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.diagnostics.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script._module import Module
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS920",
    "strategy-after-other-calls",
    "error",
    since="0.1.0",
    summary="a strategy that is made after other TensorFlow calls",
)
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_STARTS = re.compile(
    r"^tensorflow\.(?:constant|Variable|zeros|ones|range|cast|reshape|convert_to_tensor|stack|concat|eye|fill)$"
    r"|^tensorflow\.random\.(?:normal|uniform|shuffle)$|\.data\.Dataset\.|\.(?:Sequential|list_logical_devices)$"
    r"|\.layers\.|\.keras\.Model$"
)


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    for module in program.modules:
        for call in module.called("MultiWorkerMirroredStrategy"):
            early = _before(module, call)
            if early is not None:
                name = module.name_of(early.func).replace("tensorflow.", "tf.")
                message = f"`{name}` starts TensorFlow before `MultiWorkerMirroredStrategy` is made"
                line = module.span(call).line
                help_ = f"move the strategy of line {line} before it"
                yield RULE.problem(module.span(early), message, help_, related=program.related)
                return


def _before(module: Module, strategy: ast.Call) -> ast.Call | None:
    """A call that sets TensorFlow up, in a statement that runs before the strategy's."""
    for above, child in module.ancestors(strategy):
        body = getattr(above, "body", None)
        if isinstance(body, list) and child in body:
            for statement in body[: body.index(child)]:
                found = None if isinstance(statement, _DEFINES) else _starts(module, statement)
                if found is not None:
                    return found
    return None


def _starts(module: Module, statement: ast.stmt) -> ast.Call | None:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            name = module.name_of(node.func)
            if name.startswith(("tensorflow.", "keras.")) and _STARTS.search(name):
                return node
    return None
