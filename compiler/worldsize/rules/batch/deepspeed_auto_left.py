"""The DeepSpeed configuration says `"auto"`, and no library that replaces it reads the file.

Trainers of Hugging Face put a value for every `"auto"` before DeepSpeed sees it. DeepSpeed itself compares
the text with numbers, or quietly takes a default. The rule speaks only where the script and all that it
imports are known.

Why: Every rank stops with a type error, or trains in fp32 where `"auto"` was to be bf16.

Bad::

    "gradient_clipping": "auto"

Good::

    "gradient_clipping": 1.0

Fix: Write the value, or remove the key for DeepSpeed's default.

Source: deepspeedai/DeepSpeed, issue 1270.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS318",
    "deepspeed-auto-left",
    "error",
    since="0.1.0",
    summary="`auto` that nothing fills in",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "auto")
