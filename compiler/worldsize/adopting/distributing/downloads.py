"""One process of each node downloads a data set; the others wait, and find it there."""

from __future__ import annotations

import ast

from worldsize.adopting.distributing.loading import above_tests
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.scripts.module import constant_value, keyword_argument

_REASON = "the other processes of a node wait until the first has the files"


def wait_for_downloads(script: Script, header: Header) -> list[ast.stmt]:
    """Let one process of each node come first to ``download=True``; the statements that need the group."""
    found: list[ast.stmt] = []
    for _, call in script.module.calls:
        if constant_value(keyword_argument(call, "download")) is not True:
            continue
        statement = script.statement(call)
        if statement in found:
            continue
        plain = isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr) and script.has_own_line(
            statement
        )
        if plain and above_tests(script, statement) is statement:
            found.append(statement)
        else:
            script.leave(
                call, "all processes download this at the same time", "assign it to a variable first"
            )
    rank = header.names.local_rank
    for run in _list_runs(script, found):
        script.insert_before(run[0], [f"if {rank} != 0:", "    dist.barrier()"], None, _REASON)
        script.insert_after(run[-1], [f"if {rank} == 0:", "    dist.barrier()"], None, _REASON)
    return found


def _list_runs(script: Script, statements: list[ast.stmt]) -> list[list[ast.stmt]]:
    """Those that follow each other in a block, in their order."""
    runs: list[list[ast.stmt]] = []
    for statement in sorted(statements, key=lambda each: each.lineno):
        block = script.block(statement)
        place = block.index(statement)
        if place and runs and runs[-1][-1] is block[place - 1]:
            runs[-1].append(statement)
        else:
            runs.append([statement])
    return runs
