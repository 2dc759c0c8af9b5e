"""Masks secret values in commands, records, messages and excerpts.

A value of eight characters or more is masked wherever it occurs, also in the spelling of JSON, a shell, a URL
or Base64. A shorter value is masked only as a whole word, because its letters occur in other words too. A
value of up to three characters, or a word such as ``true`` or ``none``, is not searched for: it is masked
only under its own name and in the command that takes it.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from msgspec.structs import replace

from worldsize.base.problem import Problem
from worldsize.base.source import Source
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.secrecy import assignments, known_formats
from worldsize.documents.secrecy.assignments import find_code_assignments
from worldsize.documents.secrecy.names import is_secret, words
from worldsize.documents.yaml import load
from worldsize.documents.yaml.nodes import Node

HIDDEN = "***"
_ANYWHERE = 8  # a value of at least so many characters is also masked inside of words
_SHORTEST = 4
_COMMON = words("""
    true false none null nan auto default yes on off test local main prod train eval name data value text file
    json info debug user root admin azure token secret password changeme cuda
""")
_NOTHING = r"(?!)"
_OPEN, _CLOSE = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"


class Mask:
    """Replaces secrets by ``***``; what looks like a provider's key is always masked.

    Args:
        values: The secrets of a run, as text.
        within: All texts that will be masked, joined, if available: only secrets that can occur in
            it are searched for.
    """

    def __init__(self, values: Iterable[str] = (), within: str | None = None) -> None:
        self._within = within
        self.values = frozenset(value for value in values if _is_sought(value))
        self._pattern: re.Pattern[str] | None = None

    def add(self, values: Iterable[str]) -> None:
        """Mask more values from now on."""
        new_values = {value for value in values if _is_sought(value)} - self.values
        if new_values:
            self.values |= new_values
            self._pattern = None

    def text(self, text: str) -> str:
        """The text without secrets."""
        shown = self._sought().sub(HIDDEN, text) if self.values else text
        for secret in reversed([*known_formats.find_known_secrets(shown)]):
            shown = f"{shown[: secret.start]}{HIDDEN}{shown[secret.end :]}"
        return shown

    def data(self, value: Any) -> Any:
        """Plain data without secrets: masks every text, and every value under the name of a secret."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._member(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self.values:
            return HIDDEN
        return value

    def named(self, values: Mapping[str, str]) -> dict[str, str]:
        """Variables, inputs or parameters: masks the values under names of secrets."""
        return {name: HIDDEN if is_secret(name) else self.text(value) for name, value in values.items()}

    def _member(self, name: str, value: Any) -> Any:
        if isinstance(value, str | int | float) and not isinstance(value, bool) and is_secret(name):
            return HIDDEN
        return self.data(value)

    def _sought(self) -> re.Pattern[str]:
        if self._pattern is None:
            spellings = {spelling for value in self.values for spelling in _spell(value)}
            if self._within is not None:
                spellings = _select_occurring(spellings, self._within)
            longest_first = sorted(spellings, key=lambda spelling: (-len(spelling), spelling))
            self._pattern = re.compile("|".join(map(_pattern_for, longest_first)) or _NOTHING)
        return self._pattern


def find_secrets(name: str, value: str) -> frozenset[str]:
    """The secrets in a value: the value itself if its name is that of a secret, and keys of known forms."""
    known_secrets = {value[secret.start : secret.end] for secret in known_formats.find_known_secrets(value)}
    return frozenset({*known_secrets, value} if is_secret(name) else known_secrets)


def _select_occurring(spellings: set[str], text: str) -> set[str]:
    """Select the spellings that can occur in a text: both of their ends do."""
    pieces = {text[start : start + _SHORTEST] for start in range(len(text) - _SHORTEST + 1)}
    return {
        spelling
        for spelling in spellings
        if len(spelling) < _SHORTEST or (spelling[:_SHORTEST] in pieces and spelling[-_SHORTEST:] in pieces)
    }


def _is_sought(value: str) -> bool:
    return len(value.strip()) >= _SHORTEST and value.strip().lower() not in _COMMON and "***" not in value


def _spell(value: str) -> Iterator[str]:
    """Yield a value, and each of its long lines, as JSON, Python, a shell, a URL and Base64 spell it."""
    stripped = value.strip()
    for text in {value, stripped, *(line.strip() for line in value.splitlines())}:
        if not _is_sought(text):
            continue
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]
        yield shlex.quote(text).strip("'")
        data = text.encode("utf-8", "surrogatepass")
        yield quote(data, safe="")
        yield quote(data)
        yield quote_plus(data)
        if len(text) >= _ANYWHERE:
            yield base64.b64encode(data).decode().rstrip("=")


def _pattern_for(spelling: str) -> str:
    escaped = re.escape(spelling)
    return escaped if len(spelling) >= _ANYWHERE else f"{_OPEN}{escaped}{_CLOSE}"


_YAML = (".yml", ".yaml")
Finding = TypeVar("Finding", Diagnostic, Problem)


def mask_findings(
    findings: Sequence[Finding], sources: Mapping[str, Source], roots: Mapping[str, Node | None] | None = None
) -> tuple[list[Finding], dict[str, Source]]:
    """Mask the secrets in findings and in the texts that they show; positions stay the same.

    The ``roots`` are the trees of the YAML files, if they are available.
    """
    masked_sources = dict(sources)
    mask = Mask(within="\n".join(text for finding in findings for text in _texts(finding)))
    for path in _paths(findings) & sources.keys():
        masked_sources[path] = _mask_source(sources[path], roots, mask)
    return [_mask_finding(mask, finding) for finding in findings], masked_sources


def _mask_source(source: Source, roots: Mapping[str, Node | None] | None, mask: Mask) -> Source:
    """Mask the secrets of a text, and add them to the mask for messages."""
    if not source.path.endswith(_YAML):
        written = [*find_code_assignments(source.text, "shell")]
        mask.add(assignment.value for assignment in written)
        return assignments.mask_assignments(source, written)
    root = roots.get(source.path) if roots is not None else load(source.path, source.text).root
    assigned = [*assignments.find_assignments(root, source.text)]
    assigned += find_code_assignments(source.text, "command")
    mask.add(assignment.value for assignment in assigned)
    return assignments.mask_assignments(source, assigned)


def _paths(findings: Sequence[Diagnostic] | Sequence[Problem]) -> set[str]:
    paths = {finding.span.path for finding in findings}
    return paths | {related.span.path for finding in findings for related in finding.related}


def _texts(finding: Diagnostic | Problem) -> list[str]:
    return [finding.message, finding.help or "", *(related.message for related in finding.related)]


def _mask_finding(mask: Mask, finding: Finding) -> Finding:
    related = (replace(place, message=mask.text(place.message)) for place in finding.related)
    help_ = mask.text(finding.help) if finding.help else finding.help
    return replace(finding, message=mask.text(finding.message), help=help_, related=tuple(related))
