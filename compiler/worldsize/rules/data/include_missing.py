"""``additional_includes`` names a file or folder that does not exist.

Paths are relative to the component's file.

Why: The component cannot be registered or run.

Bad::

    - ../shraed/tools

Good::

    - ./shared

Fix: Correct the path, or remove the line.

Source: Microsoft Learn, Create component pipelines: additional includes.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS503", "include-missing", "error", since="0.1.0", summary="an additional include that does not exist"
)
