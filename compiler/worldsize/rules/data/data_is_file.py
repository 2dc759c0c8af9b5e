"""An input of type ``uri_folder`` names a file."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.data._common import find_data_arguments


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for data in find_data_arguments(context, job):
        if data.type != "uri_folder" or data.local is None or not context.exists(data.local):
            continue
        if not context.is_folder(data.local):
            message = f"`{data.text}` is a file, and the input is of type `uri_folder`"
            yield Finding(data.span, message, "write `type: uri_file`, or name the folder that holds it")
