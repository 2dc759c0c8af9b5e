"""An input of type ``uri_folder`` names a file.

``uri_folder`` is also the type of an input that names none.

Why: The script lists a folder and meets a file; some scripts cope with both.

Bad::

    data: {type: uri_folder, path: ./rows.csv}

Good::

    data: {type: uri_file, path: ./rows.csv}

Fix: Write ``type: uri_file``, or name the folder.

Source: Microsoft Learn, Data concepts in Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.data._common import given_data
from worldsize.rules.rule import Rule

RULE = Rule("WS522", "data-is-file", "warning", since="0.1.0", summary="a file given as a folder")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for data in given_data(context, job):
        if data.type != "uri_folder" or data.local is None or not context.exists(data.local):
            continue
        if not context.is_folder(data.local):
            message = f"`{data.text}` is a file, and the input is of type `uri_folder`"
            yield RULE.problem(data.span, message, "write `type: uri_file`, or name the folder that holds it")
