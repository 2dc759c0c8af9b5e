"""The code folder holds an environment of installed packages, and all of it is uploaded.

Meant are ``.venv``, ``node_modules``, and folders with a ``pyvenv.cfg`` or ``conda-meta``.

Why: It is large, was made for another machine, and is not used: the job runs in the environment that it
names.

Bad::

    code: .    with a folder .venv in this folder

Good::

    code: ./src

Fix: Name the folder of the code alone, or write the environment's folder into an ``.amlignore`` in the code
folder.

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
    "WS837", "environment-in-snapshot", "warning", since="0.2.0", summary="an environment is uploaded as code"
)


def check(context: Context, subject: Component | Spec) -> Iterator[Problem]:
    """Judge what a component uploads, or what a spec adds to one."""
    for part, span, folder in _uploads.uploads(context, subject):
        for found in _uploads.environments(part):
            size = _uploads.size_text(found.size)
            message = f"`{found.place}`, installed packages of {size}, is uploaded with `{part.path.name}`"
            yield RULE.problem(span, message, _uploads.remedy(folder, found.place))


RULE.checks(Component)(check)
RULE.checks(Spec)(check)
