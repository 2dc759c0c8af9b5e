"""The command starts a script that the ignore file excludes from the upload."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.data._snapshot import search_scripts


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for search in search_scripts(context, component):
        file = search.ignored_by
        if file is not None:
            message = f"`{search.script.name}` is left out of the upload by `{file}` of `{search.shown}`"
            help_ = f"remove the pattern from `{file}`, or add `!{search.script.name}` as its last line"
            yield Finding(search.script.span, message, help_)
