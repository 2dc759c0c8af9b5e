"""A component file holds a list or a text.

A component is a mapping with ``type``, ``command`` and ``environment``.

Why: There is no component in it to run.

Bad::

    component: ./list.yml

Good::

    component: ./component.yml

Fix: Refer to the component's own file.

Source: Microsoft Learn, CLI (v2) command component YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS603", "component-not-mapping", "error", since="0.1.0", summary="a component file that holds no mapping"
)
