"""A step runs on a profile that is not under ``compute:``.

Profiles are named at the top of the spec; steps refer to them by name, not to the cluster.

Why: The VM size, and so the number of processes, comes from the profile.

Bad::

    compute: gpus

Good::

    compute: gpu

Fix: Write the name of a profile, or add the profile.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS114", "step-unknown-compute", "error", since="0.1.0", summary="a compute profile that does not exist"
)
