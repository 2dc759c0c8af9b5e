"""The file is not YAML that Azure ML can read.

The place is where the parser gave up, which is at or just behind the mistake. Besides syntax proper
this covers what PyYAML refuses later: an unknown tag, a list or mapping as a key, two documents in
one file, and words such as ``2024-13-45`` that are read as a date but are none.

Why: Nothing else in the file can be checked, and ``az ml job create`` refuses it as well.

Bad::

    command: echo key: value

Good::

    command: "echo key: value"

Fix: Mostly a quote or the indentation; ``help`` names the usual cause.

Source: YAML 1.1, https://yaml.org/spec/1.1/, as PyYAML's SafeLoader reads it.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS001", "yaml-syntax", "error", since="0.1.0", summary="not YAML that Azure ML can read")
