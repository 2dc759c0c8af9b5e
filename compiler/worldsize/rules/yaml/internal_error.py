"""Worldsize itself failed: a rule, or a layer under the rules, raised an exception.

The message names the rule and the exception. All other rules were run and their findings are
complete. The exit status is 3, so that a build can tell a broken checker from a broken file.

Why: A crash that looked like a clean result would hide every fault that the rule exists to find.

Bad::

    WS000 internal-error: rule `WS203 …` failed, which is a fault of worldsize: KeyError: …

Good::

    nothing found in 3 files

Fix: Report it with the file. It cannot be suppressed.

Source: None; this is about worldsize.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS000", "internal-error", "error", since="0.1.0", summary="worldsize itself failed")
