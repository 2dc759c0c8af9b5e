"""A step, a component or a schedule refers to a file outside the checked tree.

The tree is the git checkout around the checked files; without one the working folder. What a file
of it says must not decide what else of your disk is read, so the check stops there.

Why: The component behind the reference was not checked against what the step gives it.

Bad::

    component: ../../elsewhere/component.yml

Good::

    component: ./component.yml

Fix: Check the folder that holds both, or list the other folder under ``allow:`` in ``worldsize.yml``.

Source: The design of worldsize; see ``schemas/worldsize.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS034",
    "reference-outside",
    "info",
    since="0.1.0",
    summary="a reference that leaves the checked tree",
)
