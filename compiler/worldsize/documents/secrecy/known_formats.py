"""Recognises secrets of known providers by their form. A random-looking text alone is not a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

# Forms from the providers' documentation: texts, one of which is in every such secret, and the pattern.
# The group is the secret.
_FORMS: dict[str, tuple[tuple[str, ...], str]] = {
    "a storage account key": (("AccountKey=",), r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    "a shared access key": (("SharedAccessKey=",), r"SharedAccessKey=([A-Za-z0-9+/]{42,}={0,2})"),
    "a SAS token": (("sig=",), r"[?&]sig=([A-Za-z0-9%+/]{30,}={0,2})"),
    "an AWS access key": (("AKIA", "ASIA"), r"\b((?:AKIA|ASIA)[0-9A-Z]{16})\b"),
    "a GitHub token": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})",
    ),
    "a Hugging Face token": (("hf_",), r"\b(hf_[A-Za-z0-9]{34})\b"),
    "an OpenAI key": (("sk-",), r"\b(sk-(?:proj-|svcacct-|admin-)[\w-]{40,}|sk-[A-Za-z0-9]{48})(?![\w-])"),
    "an Anthropic key": (("sk-ant-",), r"\b(sk-ant-[\w-]{32,})"),
    "a Slack token": (("xox",), r"\b(xox[abprs]-[A-Za-z0-9-]{20,})"),
    "a Google key": (("AIza",), r"\b(AIza[\w-]{35})(?![\w-])"),
    "an Entra client secret": (("Q~",), r"(?<![\w~.-])([\w~.-]{3}\dQ~[\w~.-]{31,34})(?![\w~.-])"),
    "a private key": (
        ("PRIVATE KEY-----",),
        r"(-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----)(?=(?:\\n|\s){1,20}[A-Za-z0-9+/]{8})",
    ),
    "a password in an address": (
        ("://",),
        r"://[^\s:/@'\"{}$<>]*:((?!%\()[^\s:/@'\"{}$<>*]{4,})@(?!localhost|127\.)[\w.-]",
    ),
    "a token in an address": (("://",), r"://(\w{30,})@(?![\w.-]*sentry)[\w.-]"),
    # 64 bytes in Base64: of storage, Batch and Cosmos DB. A checksum has its name and a dash before it.
    "an account key": (
        tuple(f"=={end}" for end in "\"';\n\r)<,]}"),
        r"(?<![A-Za-z0-9+/=-])((?=[a-z0-9+/]*[A-Z])(?=[A-Za-z+/]*\d)[A-Za-z0-9+/]{86}==)(?!=)",
    ),
    "a password in a connection string": (
        ("wd=", "WD=", "word=", "wd =", "word ="),
        r"(?i:\b(?:uid|user(?: id|name)?)\s?=[^;\n]{1,80};\s?(?:pwd|password)\s?=)([^;\s'\"{}$<>*%]{4,})",
    ),
    "an Azure DevOps token": (("AZDO",), r"\b([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})\b"),
    "an Azure key": (("JQQJ9",), r"\b([A-Za-z0-9]{52}JQQJ9[A-Za-z0-9]{19,35})\b"),
    "a Databricks token": (("dapi",), r"\b(dapi[0-9a-f]{32})\b"),
    "a GitLab token": (("glpat-",), r"\b(glpat-[\w-]{20,})"),
    "a package registry token": (
        ("pypi-AgEI", "npm_", "dckr_pat_"),
        r"\b(pypi-AgEI[\w-]{50,}|npm_[A-Za-z0-9]{36}|dckr_pat_[\w-]{27})",
    ),
    "a Weights & Biases key": (
        ("wandb",),
        r"wandb(?:\.login\([^()\n]{0,80}key=[\"']|[ ]login[ ](?:--relogin[ ])?)([0-9a-f]{40})\b",
    ),
    "an NVIDIA key": (("nvapi-",), r"\b(nvapi-[\w-]{60,})"),
}
# Keys that their makers publish: of the emulators of Azure Storage and Cosmos DB, and of AWS's documentation.
_HINTS = frozenset(hint for hints, _ in _FORMS.values() for hint in hints)
_PUBLISHED = ("Eby8vdM02xNOcqFlqUwJ", "C2y6yDjf5/R+ob0N8A7C", "AKIAIOSFODNN7EXAMPLE", "AKIAI44QH8DHBEXAMPLE")
_PLACEHOLDERS = frozenset(
    {
        "password",
        "pass",
        "passwd",
        "token",
        "secret",
        "changeme",
        "xxxx",
        "mypassword",
        "your_password",
        "your-password",
    }
)


LONG = 16  # a secret of at least so many characters may show its beginning
SHOWN = 4  # characters that are shown


class Secret(NamedTuple):
    """One secret: its kind, and its offsets in the text."""

    label: str
    start: int
    end: int


def find_known_secrets(text: str) -> Iterator[Secret]:
    """Find the secrets of a text, in order."""
    hints_found = {hint for hint in _HINTS if hint in text}
    if not hints_found and not text.endswith("=="):
        return
    secrets = [
        Secret(label, *match.span(1))
        for label, (hints, pattern) in _FORMS.items()
        if not hints_found.isdisjoint(hints) or (label == "an account key" and text.endswith("=="))
        for match in _compile(pattern).finditer(text)
    ]
    end = 0
    for secret in sorted(
        secrets, key=lambda candidate: candidate.start
    ):  # of one start, the form that is listed first
        value = text[secret.start : secret.end]
        if secret.start >= end and value.lower() not in _PLACEHOLDERS and not is_published(value):
            yield secret
            end = secret.end


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """A pattern, compiled when a text may match it."""
    return re.compile(pattern)


def is_published(secret: str) -> bool:
    """Whether a key is one that everybody may know."""
    return secret.startswith(_PUBLISHED)


def shorten_secret(secret: str) -> str:
    """The first four characters of a long secret, by which its owner can find it; else stars."""
    return f"{secret[:SHOWN]}…" if len(secret) >= LONG else "***"
