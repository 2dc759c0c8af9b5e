"""An input names a registered data asset without a version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.data._common import find_data_arguments

_NAME = re.compile(r"azureml:[\w.-]+")


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for data in find_data_arguments(context, job):
        if _NAME.fullmatch(data.text):
            message = f"`{data.text}` names a data asset without its version"
            help_ = f"write `{data.text}@latest`, or `{data.text}:1` with the version you mean"
            yield Finding(data.span, message, help_)
