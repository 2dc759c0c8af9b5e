"""A step without checkpoints runs on low-priority or spot instances."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml import fields
from worldsize.base.problem import Finding, Related
from worldsize.base.span import Span
from worldsize.rules.context import Context
from worldsize.rules.launch import Launch
from worldsize.yaml.nodes import Mapping

_RESUMES = re.compile(r"checkpoint|ckpt|resume|restore|load_state|nebula|BackupAndRestore", re.IGNORECASE)


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    tier, at = _tier(launch)
    texts = [source.text for source in launch.scripts(context)] if tier else []
    if not tier or not texts or any(_RESUMES.search(text) for text in [_describe_interface(launch), *texts]):
        return
    message = f"`{tier}` instances may be taken away at any time, and nothing here saves or loads checkpoints"
    related = (Related(at, "the tier"),) if at is not None else ()
    help_ = "save checkpoints into an output and resume from the newest, or use dedicated instances"
    yield Finding(launch.compute_span or launch.fallback_span, message, help_, related=related)


def _tier(launch: Launch) -> tuple[str | None, Span | None]:
    if launch.cluster is not None and (launch.cluster.tier or "").lower() in ("low_priority", "lowpriority"):
        return launch.cluster.tier, launch.cluster.tier_span
    raw = launch.step.raw
    queue = raw.get("queue_settings") if isinstance(raw, Mapping) else None
    tier = fields.read_field(queue, "job_tier") if isinstance(queue, Mapping) else None
    if tier is not None and str(tier.value).lower() == "spot":
        return str(tier.value), tier.span
    return None, None


def _describe_interface(launch: Launch) -> str:
    component = launch.step.component
    names = [*component.inputs, *component.outputs] if component is not None else []
    command = component.command.value if component is not None and component.command is not None else ""
    return " ".join([str(command), *names])
