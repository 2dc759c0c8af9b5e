"""What is reported of all that is found: which rules, how severe, how certain, and what is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from worldsize.base.problem import CONFIDENCES, Confidence
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import quoted_list
from worldsize.documents.diagnostics.diagnostic import INTERNAL, SEVERITIES, Diagnostic, Severity
from worldsize.rules import registry

if TYPE_CHECKING:
    from worldsize.checking.baseline import Baseline


class Choice(Struct, frozen=True):
    """What the caller of a check asks for.

    Args:
        select: Codes (``WS203``), beginnings of codes (``WS2``) or slugs; only these are reported.
        ignore: The same; these are not reported. Faults of worldsize itself always are.
        min_severity: Less severe findings are not reported. By default all are, but unless ``select`` names
            rules, no format lists those of severity ``info``.
        min_confidence: Less certain findings are not reported.
        exclude: Patterns as in ``.gitignore``, relative to the working folder; nothing is reported of what
            they match.
        baseline: The findings that were known before; these are not reported.
    """

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    min_severity: Severity | None = None
    min_confidence: Confidence = "possible"
    exclude: Sequence[str] = ()
    baseline: Baseline | None = None

    def __post_init__(self) -> None:
        """Refuse words that are not levels."""
        levels = ((self.min_severity or "info", SEVERITIES), (self.min_confidence, CONFIDENCES))
        for word, known in levels:
            if word not in known:
                raise ValueError(f"`{word}` is not one of {quoted_list(known)}")

    def admits(self, diagnostic: Diagnostic) -> bool:
        """Whether a finding is severe and certain enough; faults of worldsize itself always are."""
        if diagnostic.code == INTERNAL:
            return True
        return SEVERITIES.index(diagnostic.severity) <= SEVERITIES.index(
            self.min_severity or "info"
        ) and CONFIDENCES.index(diagnostic.confidence) <= CONFIDENCES.index(self.min_confidence)


EVERYTHING = Choice()


class Wanted(NamedTuple):
    """Which codes are reported: beginnings of codes."""

    selected: tuple[str, ...]
    ignored: tuple[str, ...]

    def __call__(self, code: str) -> bool:
        """Whether a code is to be reported; faults of worldsize itself always are."""
        if code == INTERNAL:
            return True
        return (not self.selected or code.startswith(self.selected)) and not code.startswith(self.ignored)


def resolve_prefixes(words: Sequence[str]) -> tuple[str, ...]:
    """The beginnings of codes that the words name.

    Raises:
        ValueError: A word is not a code, the beginning of one, or a slug.
    """
    prefixes = []
    for word in words:
        prefix = find_prefix(word)
        if prefix is None:
            raise ValueError(": ".join(describe_unknown_rule(word)))
        prefixes.append(prefix)
    return tuple(prefixes)


def find_prefix(word: str) -> str | None:
    """The code of a slug, a code or the beginning of one, in upper case; None for anything else."""
    rule = registry.find(word)
    prefix = word.upper() if rule is None else rule.code
    return prefix if prefix and registry.begins_code(prefix) else None


def describe_unknown_rule(word: str) -> tuple[str, str]:
    """Message and help for a word that is not the name of a rule."""
    near = None if word[-1:].isdigit() else did_you_mean(word, registry.names())  # a code is not guessed
    advice = near or "`worldsize explain` lists all rules"
    return f"`{word}` is not the code or slug of a rule", advice
