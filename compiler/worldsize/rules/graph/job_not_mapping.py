"""A file that is to be run as a job holds a list or a text.

A job is a mapping with ``type``, and for a pipeline ``jobs``.

Why: There is nothing in it to run.

Bad::

    - type: command

Good::

    type: command

Fix: Start the file with ``type:``.

Source: Microsoft Learn, CLI (v2) command job YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS605", "job-not-mapping", "error", since="0.1.0", summary="a job file that holds no mapping")
