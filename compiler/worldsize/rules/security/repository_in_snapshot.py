"""The code folder holds a repository, and its whole history is uploaded.

Why: The upload takes long, every commit changes the hash of the code, so that nothing is reused, and the
history holds what was removed long ago, secrets among it.

Bad::

    code: .    with a folder .git in this folder

Good::

    code: ./src

Fix: Name the folder of the code alone, or write ``.git`` into an ``.amlignore`` in the code folder. Azure
ML records the commit of a job without it.

Source: azure-ai-ml uploads hidden folders too: ``get_upload_files_from_folder``.
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
    "WS836", "repository-in-snapshot", "warning", since="0.2.0", summary="a repository is uploaded as code"
)


def check(context: Context, subject: Component | Spec) -> Iterator[Problem]:
    """Judge what a component uploads, or what a spec adds to one."""
    for part, span, folder in _uploads.uploads(context, subject):
        for found in _uploads.repositories(part):
            size = _uploads.size_text(found.size)
            message = f"`{found.place}`, a repository of {size}, is uploaded with `{part.path.name}`"
            yield RULE.problem(span, message, _uploads.remedy(folder, found.place))


RULE.checks(Component)(check)
RULE.checks(Spec)(check)
