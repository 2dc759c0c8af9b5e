"""What a rule is: a row in the table of its family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from worldsize.base.problem import Confidence
from worldsize.documents.diagnostics.diagnostic import Severity

if TYPE_CHECKING:
    from worldsize.rules.conditions import Condition

_REPOSITORY = "https://github.com/worldsize/worldsize/blob/main/compiler/worldsize/rules"


class Rule(Struct, frozen=True):
    """A fault that the checker knows: everything about it except its page and its checks.

    Args:
        code: ``WS203``. The third character is the digit of the family.
        slug: The name of the fault, which lower layers report it by.
        severity: ``error``, ``warning`` or ``info``.
        summary: What is wrong, in a few words, for lists.
        on: The types that the rule checks (``"Step"``). Empty where a lower layer reports the slug.
        when: What else must be there for the checks to find anything, see
            :mod:`worldsize.rules.conditions`; without it their module is not imported.
        confidence: ``certain`` where the service or the client refuses the file, or its result is provably
            wrong; ``likely`` where it follows from facts that can have changed, or from what scripts usually
            do; ``possible`` where only the people who wrote it can know. A finding may lower it.
        since: The version that has the rule first.
        checked_in: The module of the family that holds the checks, where one judgement serves several
            rules. By default the checks are in the module named after the slug.
        family: The folder of the rule. The registry fills it in.
    """

    code: str
    slug: str
    severity: Severity
    summary: str
    on: tuple[str, ...] = ()
    when: Condition | None = None
    confidence: Confidence = "certain"
    since: str = "0.1.0"
    checked_in: str = ""
    family: str = ""

    @property
    def module(self) -> str:
        """The import path of the checks."""
        return f"worldsize.rules.{self.family}.{self.checked_in or self._stem}"

    @property
    def page(self) -> str:
        """The path of the page, relative to the folder of the rules."""
        return f"{self.family}/{self._stem}.md"

    @property
    def docs(self) -> str:
        """The address of the page."""
        return f"{_REPOSITORY}/{self.page}"

    @property
    def _stem(self) -> str:
        return self.slug.replace("-", "_")
