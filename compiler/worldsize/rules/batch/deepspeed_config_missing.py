"""The command names a DeepSpeed configuration that is not in the code folder."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.shared import deepspeed as _deepspeed


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for launch, span, name in _deepspeed.find_missing_configs(context, job):
        scripts = launch.scripts(context)
        written_by_script = any(name.rpartition("/")[2] in script.text for script in scripts)
        if len(launch.commands) == 1 and scripts and not written_by_script:
            message = f"there is no `{name}` in the code folder"
            yield Finding(span, message, "correct the name, or put the file there")
