"""An input of type ``mltable`` names a folder without a file ``MLTable``.

The file says which files make the table and how they are read.

Why: The job starts and fails where it opens the table.

Bad::

    data: {type: mltable, path: ./plain}

Good::

    data: {type: mltable, path: ./table}

Fix: Add the file ``MLTable``, or write ``type: uri_folder``.

Source: Microsoft Learn, Working with tables in Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.data._common import given_data
from worldsize.rules.rule import Rule

RULE = Rule("WS523", "mltable-missing", "error", since="0.1.0", summary="a table without its `MLTable` file")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for data in given_data(context, job):
        if data.type != "mltable" or data.local is None or not context.exists(data.local):
            continue
        if not context.is_folder(data.local) or not context.exists(data.local / "MLTable"):
            message = f"`{data.text}` holds no file `MLTable`, which type `mltable` needs"
            yield RULE.problem(data.span, message, "add `MLTable` to the folder, or write `type: uri_folder`")
