"""The command starts a script that the code folder does not have."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding, Fix
from worldsize.base.suggest import closest
from worldsize.rules.context import Context
from worldsize.rules.data._snapshot import ScriptSearch, names_in, search_scripts


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for found in search_scripts(context, component):
        if not found.exists():
            yield _missing(found)


def _missing(found: ScriptSearch) -> Finding:
    name = found.script.name
    if found.code is None:
        message = f"`{name}` is started, but no `code` brings it along"
        if found.shown:
            message = f"`{name}` is started, but `code` is the single file `{found.shown}`"
        return Finding(found.script.span, message, "add `code:` with the folder that holds it")
    folder, _, last = name.rpartition("/")
    near = closest(last, names_in(found.code / folder))
    better = f"{folder}/{near}" if folder else near
    message = f"`{name}` is not in the code folder `{found.shown}`"
    if near is None or better is None:
        return Finding(found.script.span, message, "the path is relative to the root of the code folder")
    fix = Fix(found.script.span, better)
    return Finding(found.script.span, message, f"did you mean `{better}`?", fix=fix)
