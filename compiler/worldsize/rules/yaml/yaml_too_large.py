"""The file is larger than 16 MiB, or holds more than 300,000 values.

Both bounds are far above any job that a person or a generator writes: ten thousand steps are about
1 MiB and two hundred thousand values.

Why: A file of this size is data in the wrong place, and every tool that reads it pays in memory.

Bad::

    inputs: {rows: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}

Good::

    inputs: {rows: {type: uri_file, path: ./rows.json}}

Fix: Keep data in files that the job names.

Source: Bounds of worldsize.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS006", "yaml-too-large", "error", since="0.1.0", summary="more text or values than any job has")
