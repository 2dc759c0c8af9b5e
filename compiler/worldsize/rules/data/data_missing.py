"""An input names a local file or folder that does not exist."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.azureml.references import exists
from worldsize.azureml.snapshot import describe_missing
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.data._common import find_data_arguments


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for data in find_data_arguments(context, job):
        if data.local is not None and context.inside(data.local) and not exists(data.local):
            yield describe_missing("the input", data.text, data.local, data.span)
