"""``code:`` names a folder or file that does not exist.

It is relative to the file in which it stands.

Why: There is nothing to upload, and the command would start in an empty folder.

Bad::

    code: ./source

Good::

    code: ./src

Fix: Correct the path.

Source: azure-ai-ml: ``code`` of a command job or component.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS502", "code-missing", "error", since="0.1.0", summary="a code folder that does not exist")
