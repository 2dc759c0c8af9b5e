"""The command names a DeepSpeed configuration that is not in the code folder.

The rule stays silent where a script of the command mentions the name, or where something else runs before it:
the file may be written then.

Why: DeepSpeed takes the name for the text of a configuration and stops with `Expected a string path to an
existing deepspeed config`, after the cluster has started.

Bad::

    command: python train.py --deepspeed --deepspeed_config ds_confg.json

Good::

    command: python train.py --deepspeed --deepspeed_config ds_config.json

Fix: Correct the name, or put the file into the code folder.

Source: QwenLM/Qwen, issue 1171.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS354",
    "deepspeed-config-missing",
    "warning",
    since="0.1.0",
    summary="a DeepSpeed configuration that is not there",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found, span, name in _deepspeed.missing(context, job):
        scripts = found.scripts(context)
        made = any(name.rpartition("/")[2] in script.text for script in scripts)
        if len(found.commands) == 1 and scripts and not made:
            message = f"there is no `{name}` in the code folder"
            yield RULE.problem(span, message, "correct the name, or put the file there")
