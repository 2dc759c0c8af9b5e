"""The command starts a script that is not in the code folder."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding, Fix
from worldsize.base.suggest import closest
from worldsize.rules.context import Context
from worldsize.rules.data._snapshot import ScriptSearch, names_in, search_scripts


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for search in search_scripts(context, component):
        if not search.exists():
            yield _missing(search)


def _missing(search: ScriptSearch) -> Finding:
    name = search.script.name
    if search.code is None:
        message = f"`{name}` is started, but no `code` brings it along"
        if search.shown:
            message = f"`{name}` is started, but `code` is the single file `{search.shown}`"
        return Finding(search.script.span, message, "add `code:` with the folder that holds it")
    folder, _, last = name.rpartition("/")
    near = closest(last, names_in(search.code / folder))
    better = f"{folder}/{near}" if folder else near
    message = f"`{name}` is not in the code folder `{search.shown}`"
    if near is None or better is None:
        return Finding(search.script.span, message, "the path is relative to the root of the code folder")
    fix = Fix(search.script.span, better, safe=False)
    return Finding(search.script.span, message, f"did you mean `{better}`?", fix=fix)
