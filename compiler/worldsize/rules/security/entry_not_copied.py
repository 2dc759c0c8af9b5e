"""The code folder holds something that is neither a file nor a folder, or a link to a folder that holds it.

``compile`` and ``run`` leave it out.

Why: azure-ai-ml opens whatever has a name. At a link to nothing it stops with an error, at a pipe it waits
for ever, and a link to a folder above it enters again and again.

Bad::

    ln -s /gone src/data.csv

Good::

    cp data.csv src/

Fix: Remove it, or leave it out by an ``.amlignore`` in the code folder.

Source: azure-ai-ml: ``get_upload_files_from_folder`` and ``_get_file_hash`` of ``_asset_utils.py``.
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
    "WS840", "entry-not-copied", "warning", since="0.2.0", summary="a pipe, device or broken link in code"
)


def check(context: Context, subject: Component | Spec) -> Iterator[Problem]:
    """Judge what a component uploads, or what a spec adds to one."""
    for part, span, folder in _uploads.uploads(context, subject):
        left_out = part.listing.left_out
        if left_out:
            place, what = next(iter(sorted(left_out.items())))
            more = f", and so are {len(left_out) - 1} more such entries" if len(left_out) > 1 else ""
            message = f"`{place}` in `{part.path.name}` is {what}, which cannot be uploaded{more}"
            yield RULE.problem(span, message, f"remove it, or {_uploads.remedy(folder, place)}")


RULE.checks(Component)(check)
RULE.checks(Spec)(check)
