"""An option is read by ``type=bool``, and the command gives it a value.

``bool("False")`` is True: only the empty text is false. This is read from the text of the script and of
the modules beside it that it imports; nothing is run.

Why: The option cannot be switched off, and nobody notices.

Bad::

    parser.add_argument("--shuffle", type=bool, default=True)

Good::

    parser.add_argument("--shuffle", type=lambda text: text.lower() == "true", default=True)

Fix: Compare the text, since Azure ML passes ``True`` and ``False``.

Source: Python documentation, argparse: ``type``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script._module import constant, keyword
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS933", "boolean-by-bool", "warning", since="0.1.0", summary="`type=bool`, which reads `False` as true"
)


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    given = {flag.name for flag in program.command.flags() if flag.value is not None}
    for module in program.modules:
        for call in module.called("add_argument"):
            kind = keyword(call, "type")
            if not isinstance(kind, ast.Name) or kind.id != "bool":
                continue
            for option in (constant(argument) for argument in call.args):
                if isinstance(option, str) and option.lstrip("-").lower().replace("-", "_") in given:
                    message = (
                        f"`{option} False` is read as true: `bool` takes any text but the empty one for true"
                    )
                    help_ = 'write `type=lambda text: text.lower() == "true"`'
                    yield RULE.problem(module.span(kind), message, help_, related=program.related)
