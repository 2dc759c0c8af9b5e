"""An additional include has the name of something in the code folder.

An include lands in the root of the code folder under its own last name.

Why: The SDK refuses the component, and a merge would replace one file by the other.

Bad::

    - ./shared/train.py

Good::

    - ./shared/tools.py

Fix: Rename one of the two.

Source: azure-ai-ml: validation of additional includes.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS504", "include-clash", "error", since="0.1.0", summary="an include that the code folder already has"
)
