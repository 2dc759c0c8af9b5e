"""An input names a local file or folder that does not exist.

Paths are relative to the spec. What lies in a datastore is written ``azureml:name:version`` or
``azureml://…``.

Why: The upload fails after you signed in. It is a warning, as data is often fetched or generated before the
job is submitted, and is seldom kept in Git.

Bad::

    path: ./dta

Good::

    path: ./data

Fix: Correct the path; the help names what lies near it.

Source: Microsoft Learn, Data concepts in Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.azureml.references import exists
from worldsize.azureml.snapshot import report_missing
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.data._common import given_data
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS501", "data-missing", "warning", since="0.1.0", summary="a local path of data that does not exist"
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for data in given_data(context, job):
        if data.local is not None and context.inside(data.local) and not exists(data.local):
            yield report_missing(RULE.slug, "the input", data.text, data.local, data.span)
