"""``environment:`` names a file or folder that does not exist.

A conda file, a build context or an environment file, relative to the file in which it stands.

Why: The environment cannot be built, and the job fails before it starts.

Bad::

    conda_file: ./cnda.yml

Good::

    conda_file: ./conda.yml

Fix: Correct the path; the help names the nearest.

Source: Microsoft Learn, CLI (v2) environment YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS507", "environment-missing", "error", since="0.1.0", summary="an environment file that does not exist"
)
