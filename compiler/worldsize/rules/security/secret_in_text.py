"""A file contains a key, a token, a password or a private key."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.base.source import Source
from worldsize.documents.secrecy import known_formats
from worldsize.documents.yaml import Document
from worldsize.rules.context import Context
from worldsize.rules.security import _uploads
from worldsize.rules.security._uploads import Upload

_LONG = 24  # no example of a password has as many characters
_HELP = "revoke it, then read it from a datastore, a workspace connection or Key Vault"


def check_document(context: Context, document: Document) -> Iterator[Finding]:
    yield from _find_in_text(document.source)


def check_upload(context: Context, upload: Upload) -> Iterator[Finding]:
    for text in _uploads.find_texts(context, upload):
        yield from context.all_of(_find_in_code, text)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for text in _uploads.find_conda_files(context, component):
        yield from context.all_of(_find_in_code, text)


def _find_in_code(_context: Context, text: tuple[Source, str]) -> Iterator[Finding]:
    yield from _find_in_text(text[0], is_code=True)


def _find_in_text(source: Source, *, is_code: bool = False) -> Iterator[Finding]:
    for secret in known_formats.find_known_secrets(source.text):
        # A docstring shows what an address looks like: `postgresql://scott:tiger@host`.
        may_show = is_code and "password" in secret.label and secret.end - secret.start < _LONG
        if may_show and not _uploads.PASSWORD.search(source.text, *secret[1:]):
            continue
        shown = known_formats.shorten_secret(source.text[secret.start : secret.end])
        message = f"this is {secret.label} (`{shown}`), readable by whoever reads this file"
        yield Finding(source.span(secret.start, secret.end), message, _HELP)
