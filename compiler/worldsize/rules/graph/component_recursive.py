"""A pipeline component is one of its own steps, directly or through another.

Azure ML expands pipeline components into one graph, which would have no end.

Why: The SDK recurses until Python gives up.

Bad::

    component: ./bad.yml

Good::

    component: ./component.yml

Fix: Break the circle.

Source: azure-ai-ml expands nested components when it loads them.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS604",
    "component-recursive",
    "error",
    since="0.1.0",
    summary="a pipeline component that contains itself",
)
