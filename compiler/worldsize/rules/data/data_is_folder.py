"""An input of type ``uri_file`` names a folder.

``uri_file`` is one file, ``uri_folder`` a folder.

Why: The upload fails, or the script opens a folder as if it were a file.

Bad::

    data: {type: uri_file, path: ./table}

Good::

    data: {type: uri_folder, path: ./table}

Fix: Write ``type: uri_folder``, or name the file in the folder.

Source: Microsoft Learn, Data concepts in Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.data._common import given_data
from worldsize.rules.rule import Rule

RULE = Rule("WS521", "data-is-folder", "error", since="0.1.0", summary="a folder given as a file")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for data in given_data(context, job):
        if data.type == "uri_file" and data.local is not None and context.is_folder(data.local):
            message = f"`{data.text}` is a folder, and the input is of type `uri_file`"
            yield RULE.problem(data.span, message, "write `type: uri_folder`, or name the file in the folder")
