"""The comment behind a planned number: the arithmetic it came from, on one line."""

from __future__ import annotations

from worldsize.planning.model import Derivation, StepPlan


def comment(plan: StepPlan, quantity: str) -> str | None:
    """Where a quantity comes from: ``0.05 × κ, κ = 256 / 32 = 8 (linear)``; None where nothing says it."""
    row = _row(plan, quantity)
    if row is None:
        return None
    if quantity == "learning_rate" and "κ" in row.formula and plan.training:
        return f"{row.formula} ({plan.training.rule})"
    if any(character.isdigit() for character in row.formula) or not row.source:
        return row.formula or None
    stated = row.source.startswith(("given", "default"))
    return row.source if stated or not row.formula else row.formula


def _row(plan: StepPlan, quantity: str) -> Derivation | None:
    return next((row for row in plan.derivations if row.quantity == quantity), None)
