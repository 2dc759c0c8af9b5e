"""``${{plan.NAME}}`` names a quantity that the plan does not have for this step.

``worldsize plan SPEC`` lists the quantities. Batches and learning rates need ``scale:``.

Why: There is no value to put in its place.

Bad::

    command: python -m train --lr ${{plan.lr}}

Good::

    command: python -m train --lr ${{plan.learning_rate}}

Fix: Write one of the quantities, or add ``scale:`` to the step.

Source: The plan of the spec.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS625", "plan-unknown-quantity", "error", since="0.1.0", summary="a planned quantity that does not exist"
)
