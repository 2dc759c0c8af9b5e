"""``when:`` or ``on_fail:`` stands on a step whose component has no input for it.

A gate is obeyed by a component with an input ``gate``, such as ``register``.

Why: Nothing would be gated.

Bad::

    when: {accuracy: ">= 0.97"}

Good::

    with: {model: "azureml:digits-cnn:1", shards: "azureml:digits-shards:1"}

Fix: Move it to the step that registers the model.

Source: The README of ``register``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS641", "gate-not-supported", "error", since="0.1.0", summary="a gate on a step that cannot obey it"
)
