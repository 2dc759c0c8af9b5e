"""A file contains a key, a token, a password or a private key."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.secrecy import known_formats
from worldsize.yaml import Document

_HELP = "revoke it, then read it from a datastore, a workspace connection or Key Vault"


def check_document(context: Context, document: Document) -> Iterator[Finding]:
    for secret in known_formats.find_known_secrets(document.text):
        shown = known_formats.shorten_secret(document.text[secret.start : secret.end])
        message = f"this is {secret.label} (`{shown}`), readable by whoever reads this file"
        yield Finding(document.source.span(secret.start, secret.end), message, _HELP)
