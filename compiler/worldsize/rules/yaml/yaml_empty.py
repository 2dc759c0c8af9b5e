"""The file holds nothing, or only comments.

Why: An empty file is mostly a failed save or a redirection that went wrong, and Azure ML refuses it.

Bad::

    # to be written

Good::

    name: digits

Fix: Write the file, or remove it.

Source: azure-ai-ml refuses a job file without content.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS005", "yaml-empty", "error", since="0.1.0", summary="the file is empty")
