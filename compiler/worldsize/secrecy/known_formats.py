"""Recognises secrets of known providers by their form. A random-looking text alone is not a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# Each form is from its provider's documentation; the named group is the secret.
_FORMS = {
    "a storage account key": r"AccountKey=(?P<s1>[A-Za-z0-9+/]{86}==)",
    "a shared access key": r"SharedAccessKey=(?P<s2>[A-Za-z0-9+/]{42,}={0,2})",
    "a SAS token": r"[?&]sig=(?P<s3>[A-Za-z0-9%+/]{30,}={0,2})",
    "an AWS access key": r"\b(?P<s4>(?:AKIA|ASIA)[0-9A-Z]{16})\b",
    "a GitHub token": r"\b(?P<s5>gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})",
    "a Hugging Face token": r"\b(?P<s6>hf_[A-Za-z0-9]{34})\b",
    "an OpenAI key": r"\b(?P<s7>sk-(?:proj-|svcacct-|admin-)[\w-]{40,}|sk-[A-Za-z0-9]{48})(?![\w-])",
    "an Anthropic key": r"\b(?P<s8>sk-ant-[\w-]{32,})",
    "a Slack token": r"\b(?P<s9>xox[abprs]-[A-Za-z0-9-]{20,})",
    "a Google key": r"\b(?P<s10>AIza[\w-]{35})(?![\w-])",
    "an Entra client secret": r"(?<![\w~.-])(?P<s11>[\w~.-]{3}\dQ~[\w~.-]{31,34})(?![\w~.-])",
    "a private key": r"(?P<s12>-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----)",
    "a password in an address": r"://[^\s:/@'\"{}$<>]+:(?P<s13>[^\s:/@'\"{}$<>*]{4,})@[\w.-]",
}
_ANY = re.compile("|".join(_FORMS.values()))
_LABELS = dict(enumerate(_FORMS, 1))
_HINTS = ("Key=", "sig=", "AKIA", "ASIA", "gh", "hf_", "sk-", "xox", "AIza", "Q~", "PRIVATE KEY", "@")
_PLACEHOLDERS = frozenset({"password", "pass", "passwd", "token", "secret", "changeme", "xxxx"})


LONG = 16  # a secret of at least so many characters may show its beginning
SHOWN = 4  # characters that are shown


class Secret(NamedTuple):
    """One secret: its kind, and its offsets in the text."""

    label: str
    start: int
    end: int


def find_known_secrets(text: str) -> Iterator[Secret]:
    """Find the secrets of a text, in order."""
    if not any(hint in text for hint in _HINTS):
        return
    for match in _ANY.finditer(text):
        name = match.lastgroup or ""
        if match[name].lower() not in _PLACEHOLDERS:
            yield Secret(_LABELS[int(name[1:])], *match.span(name))


def shorten_secret(secret: str) -> str:
    """The first four characters of a long secret, by which its owner can find it; else stars."""
    return f"{secret[:SHOWN]}…" if len(secret) >= LONG else "***"
