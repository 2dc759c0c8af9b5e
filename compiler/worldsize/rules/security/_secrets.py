"""Secrets in files and in uploaded code: by their form, and by the names of what they are assigned to."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.azureml.tree import Tree
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Problem
from worldsize.base.source import Source
from worldsize.documents.secrecy import assignments, known_formats, names
from worldsize.documents.secrecy.assignments import Assignment, find_code_assignments
from worldsize.documents.yaml import Document
from worldsize.rules.security import _uploads
from worldsize.rules.security._uploads import Upload

_LONG = 24  # no example of a password has as many characters
_ELSEWHERE = compile_later(r"azureml|https?://(?![^\s]*[?&]sig=)|\.{0,2}/|\*+$|%\(|@")
_IN_VAULT = compile_later(
    r"\.vault\.azure\.net|^(?:enabled?|disabled?|true|false|yes|no|on|off)$", re.IGNORECASE
)
_PLACEHOLDER = compile_later(
    r"your|change|example|placeholder|dummy|replace|insert|redacted|todo|x{3}|\.{3}|not[ _-]?set"
    r"|(?:my|the|some|a)?[ _-]?(?:password|passphrase|secret|token|key|pass|none|default|test)\d?$",
    re.IGNORECASE,
)
# A connection string, and what opens anything in one. Application Insights does not ask to hide its key.
_CONNECTION = compile_later(r"[\w ]{1,60}=[^;]*;")
_WITH_SECRET = compile_later(r"(?:(?<!instrumentation)key|pwd|password|secret|token|sig)\s?=", re.IGNORECASE)
# In code many words stand under such names that only name a secret: of a variable, a vault, a field.
_NAMES_SECRET = compile_later(
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|(?i:(?:[a-z]+[-_.])*(?:password|secret|token|key|pwd)s?[-_.]?\d{0,2})"
)
_RANDOM = compile_later(r"[A-Za-z0-9]{20,}")
_SHORTEST_KEY = 12  # of what is only called a key or a token
_SHORTEST_PASSWORD = 4


def check_document(context: Tree, document: Document) -> Iterator[Problem]:
    yield from _find_by_form(document.source)
    written = filter(_is_real, assignments.find_assignments(document.root, document.text))
    commands = filter(_is_real_in_code, find_code_assignments(document.text, "command"))
    yield from _find_by_name(document.source, {*written, *commands})


def check_upload(context: Tree, upload: Upload) -> Iterator[Problem]:
    for source, language in _uploads.find_texts(context, upload):
        yield from context.once_for(_find_in_code, source, language)


def check_component(context: Tree, component: Component) -> Iterator[Problem]:
    for source in _uploads.find_conda_files(context, component):
        yield from context.once_for(_find_in_code, source, "command")


def _find_in_code(_context: Tree, source: Source, language: str) -> list[Problem]:
    written = {*filter(_is_real_in_code, find_code_assignments(source.text, language))}
    return [*_find_by_form(source, is_code=True), *_find_by_name(source, written)]


def _find_by_form(source: Source, *, is_code: bool = False) -> Iterator[Problem]:
    for secret in known_formats.find_known_secrets(source.text):
        # A docstring shows what an address looks like: `postgresql://scott:tiger@host`.
        may_show = is_code and "password" in secret.label and secret.end - secret.start < _LONG
        if may_show and not _uploads.PASSWORD.search(source.text, *secret[1:]):
            continue
        shown = known_formats.shorten_secret(source.text[secret.start : secret.end])
        message = f"this is {secret.label} (`{shown}`), readable by whoever reads this file"
        help_ = "revoke it, then read it from a datastore, a workspace connection or Key Vault"
        yield Problem("secret-in-text", source.span(secret.start, secret.end), message, help_)


def _find_by_name(source: Source, written: set[Assignment]) -> Iterator[Problem]:
    if not written:
        return
    secrets = known_formats.find_known_secrets(source.text)  # in order, apart
    hidden = [(secret.start, secret.end) for secret in secrets]
    starts = [start for start, _ in hidden]
    for assignment in sorted(written, key=lambda assigned: assigned.start):
        before = bisect_left(starts, assignment.end)
        if before and hidden[before - 1][1] > assignment.start:
            continue
        shown = (
            f" (`{known_formats.shorten_secret(assignment.value)}`)"
            if len(assignment.value) >= known_formats.LONG
            else ""
        )
        message = f"`{assignment.name}` is set here in plain text{shown}, readable by whoever reads this file"
        help_ = "revoke it if it is real; let the script fetch it from Key Vault with the job's identity"
        span = source.span(assignment.start, assignment.end)
        yield Problem("secret-in-variable", span, message, help_)


def _is_real(assignment: Assignment) -> bool:
    """Whether a value looks like a real secret rather than a reference or placeholder."""
    value = assignment.value.strip()
    if known_formats.is_published(value) or (_CONNECTION.match(value) and not _WITH_SECRET.search(value)):
        return False
    if _ELSEWHERE.match(value) or _PLACEHOLDER.match(value) or _IN_VAULT.search(value) or "\n" in value:
        return False
    if names.is_password(assignment.name):
        return len(value) >= _SHORTEST_PASSWORD and len(set(value)) > 1
    random = re.search(r"\d", value) and re.search(r"[A-Za-z]", value) and len(set(value)) >= 8
    return bool(random) and len(value) >= _SHORTEST_KEY and re.search(r"\s", value) is None


def _is_real_in_code(assignment: Assignment) -> bool:
    """The same for a script or a command, where only a value that looks like a secret counts."""
    value = assignment.value.strip()
    if not _is_real(assignment) or _NAMES_SECRET.fullmatch(value) or "**" in value:
        return False
    if names.is_password(assignment.name):
        return _uploads.PASSWORD.search(value) is not None and re.search(r"\s", value) is None
    run = _RANDOM.search(value)
    return (
        run is not None
        and len(re.findall(r"\d", run[0])) > 2
        and assignment.name.lower() not in ("key", "keys")
    )
