"""An input of type ``mltable`` names a folder without a file ``MLTable``."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.data._common import find_data_arguments


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for data in find_data_arguments(context, job):
        if data.type != "mltable" or data.local is None or not context.exists(data.local):
            continue
        if not context.is_folder(data.local) or not context.exists(data.local / "MLTable"):
            message = f"`{data.text}` holds no file `MLTable`, which type `mltable` needs"
            yield Finding(data.span, message, "add `MLTable` to the folder, or write `type: uri_folder`")
