"""A variable or input whose name suggests a secret has its value in the file."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.secrecy import assignments, known_formats, names
from worldsize.secrecy.assignments import Assignment
from worldsize.yaml import Document

_ELSEWHERE = re.compile(r"azureml|https?://(?![^\s]*[?&]sig=)|\.{0,2}/|\*+$|%\(|@")
_IN_VAULT = re.compile(
    r"\.vault\.azure\.net|^(?:enabled?|disabled?|true|false|yes|no|on|off)$", re.IGNORECASE
)
_PLACEHOLDER = re.compile(
    r"your|change|example|placeholder|dummy|replace|insert|redacted|todo|x{3}|\.{3}|not[ _-]?set"
    r"|(?:my|the|some|a)?[ _-]?(?:password|passphrase|secret|token|key|pass|none|default|test)\d?$",
    re.IGNORECASE,
)
_SHORTEST_KEY = 12  # of what is only called a key or a token
_SHORTEST_PASSWORD = 4


def check_document(context: Context, document: Document) -> Iterator[Finding]:
    known = [
        (secret.start, secret.end) for secret in known_formats.find_known_secrets(document.text)
    ]  # in order, apart
    starts = [start for start, _ in known]
    for assignment in sorted(
        set(assignments.find_assignments(document.root, document.text)), key=lambda each: each.start
    ):
        before = bisect_left(starts, assignment.end)
        if (before and known[before - 1][1] > assignment.start) or not _is_real(assignment):
            continue
        shown = (
            f" (`{known_formats.shorten_secret(assignment.value)}`)"
            if len(assignment.value) >= known_formats.LONG
            else ""
        )
        message = f"`{assignment.name}` is given its value here{shown}, readable by whoever reads this file"
        help_ = "revoke it if it is real; fetch it in the script from Key Vault with the job's identity"
        yield Finding(document.source.span(assignment.start, assignment.end), message, help_)


def _is_real(assignment: Assignment) -> bool:
    """Whether a value looks like one that works somewhere, and no reference or stand-in."""
    value = assignment.value.strip()
    if _ELSEWHERE.match(value) or _PLACEHOLDER.match(value) or _IN_VAULT.search(value) or "\n" in value:
        return False
    if names.is_password(assignment.name):
        return len(value) >= _SHORTEST_PASSWORD and len(set(value)) > 1
    random = re.search(r"\d", value) and re.search(r"[A-Za-z]", value) and len(set(value)) >= 8
    return bool(random) and len(value) >= _SHORTEST_KEY and re.search(r"\s", value) is None
