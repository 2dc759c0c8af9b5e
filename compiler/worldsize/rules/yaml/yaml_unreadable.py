"""The file cannot be opened: it is absent, forbidden, a folder, a pipe, or a link that leads nowhere.

Why: A check that passed over it would report a clean tree that was never looked at.

Bad::

    worldsize check link-to-a-removed-file.yml

Good::

    worldsize check pipeline.yml

Fix: Correct the path, the link or the rights.

Source: The operating system's own answer, which the message quotes.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS003", "yaml-unreadable", "error", since="0.1.0", summary="the file cannot be opened")
