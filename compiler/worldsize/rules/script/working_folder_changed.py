"""A script that runs in several processes changes its working folder."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.guards import is_guarded_by_rank
from worldsize.scripts.program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.processes < 2:
        return
    for module, call in program.called("os.chdir"):
        if not is_guarded_by_rank(program.modules, module, call):
            message = "`os.chdir` in every process changes what relative paths refer to"
            help_ = "join paths with `os.path.join`, or give `cwd=` to the process that needs it"
            yield Finding(module.span(call), message, help_, related=program.related)
