"""A variable whose name says "secret" is given its value in the file.

Names that end in ``_TOKEN``, ``_API_KEY``, ``_SECRET``, ``_PASSWORD`` and the like are meant, with a value
of at least 16 letters and digits that is neither a binding nor a placeholder.

Why: Environment variables of a job are shown in Studio and stay in the repository's history.

Bad::

    WANDB_API_KEY: 0123456789abcdef0123456789abcdef01234567

Good::

    KEY_VAULT: https://digits.vault.azure.net

Fix: Revoke the secret; fetch it in the script from Key Vault with the job's identity.

Source: Microsoft Learn, Use authentication credential secrets in Azure Machine Learning jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.diagnostics.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.security import _secrets
from worldsize.yaml import Document

RULE = Rule(
    "WS802", "secret-in-variable", "warning", since="0.1.0", summary="a secret as the value of a variable"
)
_ASSIGNED = re.compile(
    r"^[ \t]*(?P<name>[\w.-]*(?:token|api_?key|access_?key|account_?key|secret|password|passwd|sas_token))"
    r"[ \t]*:[ \t]+[\"']?(?P<value>[A-Za-z0-9+/_.~=-]{16,})[\"']?[ \t]*(?:#.*)?$",
    re.IGNORECASE | re.MULTILINE,
)
_HINTS = re.compile(r"token|key|secret|passw", re.IGNORECASE)


@RULE.checks(Document)
def check(context: Context, document: Document) -> Iterator[Problem]:
    text = document.text
    if _HINTS.search(text) is None:
        return
    known = {secret.start for secret in _secrets.find(text)}
    for found in _ASSIGNED.finditer(text):
        value = found["value"]
        if found.start("value") in known or not (re.search(r"\d", value) and re.search(r"[A-Za-z]", value)):
            continue
        if re.match(r"azureml|https?:|\.{0,2}/", value) or len(set(value)) < 8:
            continue  # a reference, a path, or `xxxxxxxx`
        shown = _secrets.masked(value)
        message = (
            f"`{found['name']}` is given its value here (`{shown}`), readable by whoever reads this file"
        )
        help_ = "revoke it if it is real; fetch it in the script from Key Vault with the job's identity"
        yield RULE.problem(document.source.span(*found.span("value")), message, help_)
