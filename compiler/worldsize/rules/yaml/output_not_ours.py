"""The folder that compile is to write holds files that it did not write.

Compile replaces the folder as a whole. What it wrote before is listed in its ``plan.json``.

Why: Your own files would be lost.

Bad::

    worldsize compile spec.yml -o src

Good::

    worldsize compile spec.yml -o build

Fix: Name a new or empty folder, or move the files away.

Source: None; this is about worldsize.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS020", "output-not-ours", "error", since="0.1.0", summary="an output folder that holds other files"
)
