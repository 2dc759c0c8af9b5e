"""A file holds a key, a token, a password or a private key.

The forms are those that providers give their keys; a text is not called a secret for looking random.

Why: Whoever can read the repository, its history or the job in Studio can use the account.

Bad::

    path: https://digits.blob.core.windows.net/raw?sv=2024-11-04&sp=r&sig=Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE%3D

Good::

    path: azureml://datastores/raw/paths/digits/

Fix: Revoke the secret first, since history keeps it; then read it from a datastore, a workspace
connection or Key Vault.

Source: Microsoft Learn, Use authentication credential secrets in Azure Machine Learning jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.secrecy import known_formats
from worldsize.yaml import Document

RULE = Rule("WS801", "secret-in-text", "error", since="0.1.0", summary="a key, token or password in a file")
_HELP = "revoke it, then read it from a datastore, a workspace connection or Key Vault"


@RULE.checks(Document)
def check(context: Context, document: Document) -> Iterator[Problem]:
    for secret in known_formats.find_known_secrets(document.text):
        shown = known_formats.mask_known_secrets(document.text[secret.start : secret.end])
        message = f"this is {secret.label} (`{shown}`), readable by whoever reads this file"
        yield RULE.problem(document.source.span(secret.start, secret.end), message, _HELP)
