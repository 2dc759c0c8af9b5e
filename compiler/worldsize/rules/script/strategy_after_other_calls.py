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

from worldsize.base.problem import Problem
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
        found = module.once(_too_late)
        if found is not None:
            call, early = found
            name = module.name_of(early.func).replace("tensorflow.", "tf.")
            message = f"`{name}` starts TensorFlow before `MultiWorkerMirroredStrategy` is made"
            line = module.span(call).line
            help_ = f"move the strategy of line {line} before it"
            yield RULE.problem(module.span(early), message, help_, related=program.related)
            return


def _too_late(module: Module) -> tuple[ast.Call, ast.Call] | None:
    """The first strategy that is made behind a call that starts TensorFlow, and that call."""
    strategies = module.called("MultiWorkerMirroredStrategy")
    starting = {call for name, call in module.calls if _starts(name)} if strategies else set()
    holding = module.around(starting)
    early: dict[
        ast.AST, dict[ast.AST, ast.stmt]
    ] = {}  # by a block's owner and statement, the first before it
    for strategy in strategies if starting else ():
        for above, child in module.ancestors(strategy):
            if above not in early:
                early[above] = dict(_behind(above, holding))
            if child in early[above]:
                first = early[above][child]
                return strategy, next(node for node in ast.walk(first) if node in starting)
    return None


def _behind(above: ast.AST, holding: set[ast.AST]) -> Iterator[tuple[ast.AST, ast.stmt]]:
    """The statements of a block behind the first that starts TensorFlow, each with that one."""
    body = getattr(above, "body", None)
    first: ast.stmt | None = None
    for statement in body if isinstance(body, list) else ():
        if first is not None:
            yield statement, first
        elif statement in holding and not isinstance(statement, _DEFINES):
            first = statement


def _starts(name: str) -> bool:
    return name.startswith(("tensorflow.", "keras.")) and _STARTS.search(name) is not None
