"""What a rule is: a code, a slug, a severity, a page, and perhaps a check of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct, field

from worldsize.base.problem import Fix, Problem, Related
from worldsize.base.span import Span
from worldsize.diagnostics.diagnostic import Severity
from worldsize.rules.conditions import Condition

if TYPE_CHECKING:
    from worldsize.rules.context import Context

T = TypeVar("T")
Check = Callable[["Context", T], Iterable[Problem]]


class Entry(NamedTuple):
    """A rule's line in its family's list: enough to decide whether its file must be imported.

    ``on`` names the types its checks look at (``"Step"``); it is empty where a lower layer
    reports the slug and the file only gives it code, severity and page. ``when`` names what else
    must be there for it to find anything, see :mod:`worldsize.rules.conditions`.
    """

    code: str
    slug: str
    on: tuple[str, ...] = ()
    when: Condition | None = None


class Rule(Struct, frozen=True):
    """The declaration in a rule's file. The module's docstring is its page."""

    code: str
    slug: str
    severity: Severity
    since: str
    summary: str
    registered: list[tuple[type[Any], Check[Any]]] = field(default_factory=list)

    def checks(self, kind: type[T]) -> Callable[[Check[T]], Check[T]]:
        """Register a generator that is called with the context and every ``kind`` of what is checked."""

        def register(check: Check[T]) -> Check[T]:
            self.registered.append((kind, check))
            return check

        return register

    def problem(
        self,
        span: Span,
        message: str,
        help: str | None = None,  # noqa: A002 - the name users of the JSON see
        *,
        related: tuple[Related, ...] = (),
        fix: Fix | None = None,
    ) -> Problem:
        """A problem of this rule."""
        return Problem(self.slug, span, message, help, related, fix)
