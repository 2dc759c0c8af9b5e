"""The command starts a script that the ignore file of the code folder leaves out."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.data._snapshot import search_scripts


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for found in search_scripts(context, component):
        file = found.ignored_by
        if file is not None:
            message = f"`{found.script.name}` is left out of the upload by `{file}` of `{found.shown}`"
            help_ = f"remove the pattern from `{file}`, or add `!{found.script.name}` as its last line"
            yield Finding(found.script.span, message, help_)
