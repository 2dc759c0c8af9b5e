"""A step without checkpoints runs on low-priority or spot instances."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.base.problem import Finding, Related
from worldsize.rules import price_comparison
from worldsize.rules.context import Context
from worldsize.rules.launch import Launch

_RESUMES = re.compile(r"checkpoint|ckpt|resume|restore|load_state|nebula|BackupAndRestore", re.IGNORECASE)


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    found = price_comparison.find_preemptible_tier(launch)
    tier, at = found or (None, None)
    texts = [source.text for source in launch.scripts(context)] if tier else []
    if not tier or not texts or any(_RESUMES.search(text) for text in [_describe_interface(launch), *texts]):
        return
    message = f"`{tier}` instances may be taken away at any time, and nothing here saves or loads checkpoints"
    related = (Related(at, "the tier"),) if at is not None else ()
    help_ = "save checkpoints into an output and resume from the newest, or use dedicated instances"
    yield Finding(launch.compute_span or launch.fallback_span, message, help_, related=related)


def _describe_interface(launch: Launch) -> str:
    component = launch.step.component
    names = [*component.inputs, *component.outputs] if component is not None else []
    command = component.command.value if component is not None and component.command is not None else ""
    return " ".join([str(command), *names])
