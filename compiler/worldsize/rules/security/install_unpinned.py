"""A command installs packages without versions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.base.wording import plural
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context
from worldsize.rules.security import dependency_unpinned

_INSTALL = re.compile(r"\bpip[\d.]*\s+install\b(?P<words>[^;&|\n]*)")
_WORD = re.compile(r"\S+")
_WITH_VALUE = re.compile(
    r"-[rcitfe]|--(?:requirement|constraint|(?:extra-)?index-url|target|find-links|editable|root|prefix|trusted-host)"
)
_TOOLS = {"pip", "setuptools", "wheel"}


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    node = component.command.node if component.command is not None else None
    if not isinstance(node, Scalar) or "pip" not in node.text:
        return
    for install in _INSTALL.finditer(node.text):
        packages = list(_find_packages(install))
        if not packages:
            continue
        name, start, text = packages[0]
        message = f"`pip install {name}` gets whatever version is the newest when the job starts"
        help_ = f"put `{name}` into the environment, or write its version"
        if len(packages) > 1:
            others = plural(len(packages) - 1, "other")
            message = (
                f"`pip install {name}` and {others} get whatever versions are the newest when the job starts"
            )
            help_ = "put them into the environment, or write their versions"
        yield Finding(node.subspan(start, start + len(text)), message, help_)


def _find_packages(install: re.Match[str]) -> Iterator[tuple[str, int, str]]:
    """The packages without a version: name, place in the command and how they are written."""
    value_follows = False
    for word in _WORD.finditer(install["words"]):
        text = word[0].strip("'\"")
        skipped, value_follows = value_follows, _WITH_VALUE.fullmatch(text) is not None
        if skipped or text.startswith("-") or "/" in text or "$" in text:
            continue
        name = dependency_unpinned.parse_pip_name(text)
        if name and name not in _TOOLS:
            yield name, install.start("words") + word.start() + word[0].find(text), text
