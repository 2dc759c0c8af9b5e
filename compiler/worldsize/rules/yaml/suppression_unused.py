"""A suppression comment silences nothing.

It covers the line it ends, or the next line with content where it stands on a line of its own. A
diagnostic belongs to the line where it begins. Codes that ``--select`` or ``--ignore`` leave out
are not judged.

Why: A comment that outlived its fault will hide the next one on that line.

Bad::

    name: digits  # worldsize: ignore[WS002] left from an old version

Good::

    name: digits

Fix: Remove it, or move it to the line of the diagnostic.

Source: None; the syntax is of worldsize.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS011", "suppression-unused", "warning", since="0.1.0", summary="a suppression that silences nothing"
)
