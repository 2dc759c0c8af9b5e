"""``uses:`` names a built-in component that does not exist.

A bare name is a built-in component; a file is written ``./path/component.yml``, a registered one
``azureml:name:version``.

Why: There is nothing to run.

Bad::

    uses: shard_dta

Good::

    uses: shard_data

Fix: Write one of the names that the help lists, or the path of your own component.

Source: The folders under ``components/``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS601", "unknown-component", "error", since="0.1.0", summary="a built-in component that does not exist"
)
