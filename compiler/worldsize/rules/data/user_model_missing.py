"""``model:`` names a file or function of your own that does not exist.

A model is given as ``path/to/file.py:function``, relative to the spec and below its folder. The
file is parsed, never run.

Why: The step would stop in its first second, after the cluster was allocated.

Bad::

    model: models/net.py:build_model

Good::

    model: models/net.py:build

Fix: Correct the path or the name of the function.

Source: The README of ``train_ddp``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS505", "user-model-missing", "error", since="0.1.0", summary="a model of your own that cannot be found"
)
