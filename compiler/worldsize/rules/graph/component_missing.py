"""A step refers to a component file that does not exist.

Paths are relative to the file in which they stand. Registered components are written
``azureml:name:version``.

Why: The pipeline cannot be submitted or compiled.

Bad::

    component: ./trian.yml

Good::

    component: ./component.yml

Fix: Correct the path; the help lists the files beside it.

Source: Microsoft Learn, CLI (v2) pipeline job YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS602", "component-missing", "error", since="0.1.0", summary="a component file that does not exist"
)
