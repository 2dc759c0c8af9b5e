"""A script of several processes changes its working folder.

This is read from the text of the script and of the modules beside it that it imports; nothing is run.

Why: Relative paths, such as those of inputs, ``./outputs`` and modules that later processes import, lead
elsewhere from then on.

Bad::

    os.chdir(args.output)

Good::

    path = os.path.join(args.output, "model.pt")

Fix: Join paths instead, or give ``cwd=`` to the process that needs another folder.

Source: Python documentation, ``os.chdir``; Microsoft Learn, where Azure ML writes ``./outputs``.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script import _ranks
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS931",
    "working-folder-changed",
    "warning",
    since="0.1.0",
    summary="a distributed script that leaves its folder",
)


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    if program.processes < 2:
        return
    for module in program.modules:
        for call in module.called("os.chdir"):
            if not _ranks.guarded(program.modules, module, call):
                message = "`os.chdir` in every process makes relative paths lead elsewhere"
                help_ = "join paths with `os.path.join`, or give `cwd=` to the process that needs it"
                yield RULE.problem(module.span(call), message, help_, related=program.related)
