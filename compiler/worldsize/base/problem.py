"""A fault as the layer that met it describes it: what, where, how to mend it, but not yet its code.

Lower layers (yaml, spec, azureml, plan) report problems by *slug*; the file
``rules/<family>/<slug>.py`` gives the slug its code, severity and page. So the catalogue of codes
lives in one place and no lower layer imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:  # the YAML reader reports problems itself: a real import would go round in a circle
    from worldsize.base.span import Span


class Related(Struct, frozen=True):
    """A second place that explains the first, with its own label ("first defined here")."""

    span: Span
    message: str


class Fix(Struct, frozen=True):
    """A replacement of the text under ``span`` that is safe to apply without asking."""

    span: Span
    replacement: str


class Problem(Struct, frozen=True):
    """One cause, one problem.

    ``message`` starts in lower case, quotes the user's tokens in back-ticks, gives both numbers
    when numbers disagree and has no final full stop. ``help`` says what to write instead.
    """

    slug: str
    span: Span
    message: str
    help: str | None = None
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
