"""One rule has more than 200 findings in one file, and those after the 200th are not listed.

Why: A report of a hundred thousand lines tells no more than its beginning, and takes longer to write than
to mend what it says. Which findings are listed does not change the exit status.

Bad::

    command: pip install timm einops torchmetrics wandb && python -c "print('hello')"

Good::

    command: pip install timm==1.0.9 einops==0.8.1 && python -c "print('hello')"

Fix: Mend what is listed and check again.

Source: Bounds of worldsize.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS012", "findings-left-out", "info", since="0.1.0", summary="a rule with more findings than are listed"
)
