"""Lists and mappings are nested more than 100 levels deep, aliases followed.

Why: The loader behind Azure ML is recursive, and ends in an error without a line or in a crash.

Bad::

    [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[

Good::

    items: [1, 2, 3]

Fix: Flatten the structure; a job needs fewer than ten levels.

Source: Bounds of worldsize.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS007", "yaml-too-deep", "error", since="0.1.0", summary="more than 100 levels of nesting")
