"""An input of type ``uri_file`` names a folder."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.data._common import find_data_arguments


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for data in find_data_arguments(context, job):
        if data.type == "uri_file" and data.local is not None and context.is_folder(data.local):
            message = f"`{data.text}` is a folder, and the input is of type `uri_file`"
            yield Finding(data.span, message, "write `type: uri_folder`, or name the file in the folder")
