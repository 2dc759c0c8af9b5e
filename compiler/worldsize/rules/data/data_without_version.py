"""An input names a registered data asset without its version.

``azureml:NAME`` is a whole reference only with ``:VERSION`` or ``@latest`` behind it.

Why: The job is refused when it is submitted, after the code was uploaded.

Bad::

    data: {type: uri_folder, path: azureml:digits}

Good::

    data: {type: uri_folder, path: azureml:digits@latest}

Fix: Add ``:VERSION`` or ``@latest``.

Source: Microsoft Learn, Data concepts in Azure Machine Learning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.data._common import given_data
from worldsize.rules.rule import Rule

RULE = Rule("WS520", "data-without-version", "error", since="0.1.0", summary="a data asset without a version")


_NAME = re.compile(r"azureml:[\w.-]+")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for data in given_data(context, job):
        if _NAME.fullmatch(data.text):
            message = f"`{data.text}` names a data asset without its version"
            help_ = f"write `{data.text}@latest`, or `{data.text}:1` with the version you mean"
            yield RULE.problem(data.span, message, help_)
