"""The command sets an option that the script parses with `type=bool`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding, Fix
from worldsize.rules.context import Context
from worldsize.scripts.module import constant_value, keyword_argument
from worldsize.scripts.program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    flag_names = {flag.name for flag in program.command.flags() if flag.value is not None}
    for module in program.modules:
        for call in module.called("add_argument"):
            kind = keyword_argument(call, "type")
            if not isinstance(kind, ast.Name) or kind.id != "bool":
                continue
            for option in (constant_value(argument) for argument in call.args):
                if isinstance(option, str) and option.lstrip("-").lower().replace("-", "_") in flag_names:
                    message = (
                        f"`{option} False` is read as true: `bool` of any text that is not empty is true"
                    )
                    help_ = 'write `type=lambda text: text.lower() == "true"`'
                    fix = Fix(module.span(kind), 'lambda text: text.lower() == "true"', safe=False)
                    yield Finding(module.span(kind), message, help_, related=program.related, fix=fix)
