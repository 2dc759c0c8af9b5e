"""A problem as the layer that found it describes it: what, where and how to fix it, without a code.

Lower layers (yaml, spec, azureml, planning) report a :class:`Problem` by *slug*; a row of
``rules/<family>/__init__.py`` gives the slug its code and severity. So the catalogue of codes
is in one place, and no lower layer imports it. A rule's own check reports a :class:`Finding`,
and the engine adds the slug.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from worldsize.base.span import Span

Confidence = Literal["certain", "likely", "possible"]
CONFIDENCES: tuple[Confidence, ...] = ("certain", "likely", "possible")


class Related(Struct, frozen=True):
    """A second place that explains the first, with its own label ("first defined here")."""

    span: Span
    message: str


def relate(span: Span | None, message: str) -> tuple[Related, ...]:
    """The place that explains a finding, if it is known."""
    return () if span is None else (Related(span, message),)


class Fix(Struct, frozen=True):
    """A replacement of the text under ``span``; an empty span inserts.

    It is safe if what the user means stays: no other edit is possible, or the file does the same after it.
    A word that is only similar, and any change of what a job that works today does, is not safe.
    """

    span: Span
    replacement: str
    safe: bool = True


class Finding(Struct, frozen=True):
    """One cause, one finding.

    ``message`` starts in lower case, quotes the user's tokens in back-ticks, gives both numbers
    when numbers disagree and has no final full stop. ``help`` says what to write instead.
    ``confidence`` is set only if it is lower than that of the rule.
    """

    span: Span
    message: str
    help: str | None = None
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    confidence: Confidence | None = None

    def under(self, slug: str) -> Problem:
        """The finding as a problem of the rule with this slug."""
        return Problem(slug, self.span, self.message, self.help, self.related, self.fix, self.confidence)


class Problem(Struct, frozen=True):
    """A finding with the slug of its rule."""

    slug: str
    span: Span
    message: str
    help: str | None = None
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    confidence: Confidence | None = None


class HelpfulError(Exception):
    """An error whose ``help`` says what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:  # noqa: A002 - the word diagnostics use
        super().__init__(message)
        self.help = help
