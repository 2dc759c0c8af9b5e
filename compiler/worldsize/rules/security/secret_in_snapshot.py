"""The code folder holds files that usually keep keys or passwords, and they are uploaded with it.

Files are known by their names: ``.env``, private keys, ``*.pfx``, ``.netrc``, ``kubeconfig``, what lies in
``.azure``, ``.aws`` or ``.ssh``, and the like. A ``.pem`` that holds certificates alone is not meant, nor
is an empty file.

Why: Whoever can read the workspace's storage or opens the job's code in Studio has the secret, and
snapshots are kept.

Bad::

    code: .    with a file .env in this folder

Good::

    code: ./src

Fix: Leave the file out by an ``.amlignore`` in the code folder. Azure ML reads that one, else the
``.gitignore`` there; an ignore file of a folder above counts for git, but not for the upload. Revoke what
was uploaded already.

Source: azure-ai-ml: ``get_ignore_file`` of ``_asset_utils.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.security import _uploads
from worldsize.spec.model import Spec

RULE = Rule(
    "WS835", "secret-in-snapshot", "warning", since="0.2.0", summary="a file with secrets is uploaded"
)
_SHOWN = 3


def check(context: Context, subject: Component | Spec) -> Iterator[Problem]:
    """Judge what a component uploads, or what a spec adds to one."""
    for part, span, folder in _uploads.uploads(context, subject):
        found = _uploads.secrets(part)
        if found:
            size = _uploads.size_text(sum(part.listing.sizes[place] for place in found))
            listed = ", ".join(f"`{place}`" for place in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            what = "which usually holds secrets" if len(found) == 1 else "which usually hold secrets"
            message = f"{listed}{more} ({size}), {what}, is uploaded with `{part.path.name}`"
            if len(found) > 1:
                message = message.replace("is uploaded", "are uploaded")
            yield RULE.problem(span, message, _uploads.remedy(folder, *found[:_SHOWN]))


RULE.checks(Component)(check)
RULE.checks(Spec)(check)
