"""The command starts a script that the code folder does not have.

Commands run in the root of the code folder, with what ``additional_includes`` puts there.

Why: The step fails with its first line, after the cluster has started.

Bad::

    command: python trian.py

Good::

    command: python train.py

Fix: Correct the name, or the folder under ``code``.

Source: Microsoft Learn, CLI (v2) command job YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Fix, Problem
from worldsize.base.suggest import closest
from worldsize.rules.context import Context
from worldsize.rules.data._snapshot import Sought, names_in, sought
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS524",
    "script-missing",
    "error",
    since="0.1.0",
    summary="a command that starts a script which the code folder lacks",
)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    for found in sought(context, component):
        if not found.exists():
            yield _missing(found)


def _missing(found: Sought) -> Problem:
    name = found.script.name
    if found.code is None:
        message = f"`{name}` is started, but no `code` brings it along"
        if found.shown:
            message = f"`{name}` is started, but `code` is the single file `{found.shown}`"
        return RULE.problem(found.script.span, message, "add `code:` with the folder that holds it")
    folder, _, last = name.rpartition("/")
    near = closest(last, names_in(found.code / folder))
    better = f"{folder}/{near}" if folder else near
    message = f"`{name}` is not in the code folder `{found.shown}`"
    if near is None or better is None:
        return RULE.problem(found.script.span, message, "the path is relative to the root of the code folder")
    fix = Fix(found.script.span, better)
    return RULE.problem(found.script.span, message, f"did you mean `{better}`?", fix=fix)
