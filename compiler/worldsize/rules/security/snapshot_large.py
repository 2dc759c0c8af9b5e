"""The code folder holds more than 50 MB, which is data, checkpoints or results rather than code.

Repositories and environments in it are reported as such and do not count here.

Why: Every submission hashes all of it and uploads it again when any of it has changed, and every node
downloads it before it starts.

Bad::

    code: .    with the checkpoints of earlier runs below

Good::

    code: ./src

Fix: Leave it out by an ``.amlignore`` in the code folder, and bind data as an input of the step.

Source: azure-ai-ml: ``_check_and_upload_path``; the client itself warns from 100 MB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.security import _uploads
from worldsize.spec.model import Spec

RULE = Rule(
    "WS838", "snapshot-large", "warning", since="0.2.0", summary="more than 50 MB are uploaded as code"
)
LIMIT = 50_000_000  # bytes


def check(context: Context, subject: Component | Spec) -> Iterator[Problem]:
    """Judge what a component uploads, or what a spec adds to one."""
    for part, span, folder in _uploads.uploads(context, subject):
        sizes = _uploads.remaining(part)
        total = sum(sizes.values())
        if total > LIMIT:
            heads = Counter[str]()
            for place, size in sizes.items():
                heads[place.split("/", 1)[0]] += size
            largest, size = max(heads.items(), key=lambda each: (each[1], each[0]))
            message = (
                f"{_uploads.size_text(total)} are uploaded with `{part.path.name}`, more than"
                f" {_uploads.size_text(LIMIT)}: `{largest}` has {_uploads.size_text(size)} of it"
            )
            yield RULE.problem(span, message, _uploads.remedy(folder, largest))


RULE.checks(Component)(check)
RULE.checks(Spec)(check)
