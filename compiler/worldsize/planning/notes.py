"""What deriving one step collects on its way: rows of the table, advice, problems."""

from __future__ import annotations

from msgspec import Struct, field

from worldsize.base.problem import Fix, Problem, Related
from worldsize.base.span import Span
from worldsize.planning.model import Derivation, PlanValue


class Notes(Struct):
    """One step's notes; ``step`` names it in sources such as ``train.scale.epochs``."""

    step: str
    derivations: list[Derivation] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def derive(self, quantity: str, value: PlanValue, formula: str, source: str) -> None:
        """Add a row of the table."""
        self.derivations.append(Derivation(quantity, value, formula, source))

    def report(
        self,
        slug: str,
        span: Span,
        message: str,
        help_: str | None = None,
        *related: Related,
        fix: Fix | None = None,
    ) -> None:
        """Add a problem."""
        self.problems.append(Problem(slug, span, message, help_, related, fix))

    def given(self, place: str) -> str:
        """The source of a value that the user wrote."""
        return f"given as {self.step}.{place}"
