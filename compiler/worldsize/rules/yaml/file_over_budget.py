"""Checking the file takes more than a minute of processor time, and the rest of its rules were not run.

A megabyte of YAML takes about a second. Time is counted for each file and only while a processor works on
it; what else the machine does changes nothing. The other files are checked as always. `plan`, `compile` and
`run` refuse such a file, and write nothing.

Why: One file must not keep a pipeline of checks, or an editor, from ever ending.

Bad::

    tags: [one, two, three]

Good::

    tags: {owner: vision}

Fix: Split the file, or shorten what it repeats.

Source: Bounds of worldsize.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS013", "file-over-budget", "warning", since="0.2.0", summary="a file that takes too long to check"
)
