"""A command installs packages without versions before it starts.

Why: Every run, and every rank of it, may get other versions; and the job fails when the index is down.

Bad::

    command: pip install timm && python -m digits.train

Good::

    command: pip install timm==1.0.9 && python -m digits.train

Fix: Put the packages into the environment, or write their versions.

Source: pip documentation, Repeatable installs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.security import _packages
from worldsize.yaml.nodes import Scalar

RULE = Rule(
    "WS814",
    "install-unpinned",
    "warning",
    since="0.1.0",
    summary="`pip install` without versions in a command",
)
_INSTALL = re.compile(r"\bpip[\d.]*\s+install\b(?P<words>[^;&|\n]*)")
_WORD = re.compile(r"\S+")
_WITH_VALUE = re.compile(
    r"-[rcitfe]|--(?:requirement|constraint|(?:extra-)?index-url|target|find-links|editable|root|prefix|trusted-host)"
)
_TOOLS = {"pip", "setuptools", "wheel"}


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    node = component.command.node if component.command is not None else None
    if not isinstance(node, Scalar) or "pip" not in node.text:
        return
    for install in _INSTALL.finditer(node.text):
        value_follows = False
        for word in _WORD.finditer(install["words"]):
            text = word[0].strip("'\"")
            skipped, value_follows = value_follows, _WITH_VALUE.fullmatch(text) is not None
            if skipped or text.startswith("-") or "/" in text or "$" in text:
                continue
            name = _packages.pip_name(text)
            if name and name not in _TOOLS:
                start = install.start("words") + word.start() + word[0].find(text)
                span = node.subspan(start, start + len(text))
                message = f"`pip install {name}` gets whatever version is the newest when the job starts"
                yield RULE.problem(span, message, f"put `{name}` into the environment, or write its version")
