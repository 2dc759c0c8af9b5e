"""The DeepSpeed configurations of a job, judged once for all rules, and what the command says beside them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

from worldsize.azureml.launch import Launch, read_launches
from worldsize.azureml.model import Job, Literal
from worldsize.azureml.tree import Tree
from worldsize.base import limits
from worldsize.base.problem import Finding, Fix, Problem, Related
from worldsize.base.span import Span
from worldsize.documents import yaml
from worldsize.documents.yaml import json_text
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence, find_node
from worldsize.rules.shared import deepspeed as _deepspeed
from worldsize.rules.shared.deepspeed import INPUT, ConfigUse, find_config_uses, find_input_file
from worldsize.rules.shared.replicas import read_flag
from wstrain_deepspeed import config
from wstrain_deepspeed.config import verify
from wstrain_deepspeed.config.schema import read_tables

_MAX_UNKNOWN = 500  # keys of one block

# The rules of the faults in the text of a file, and of what `verify` finds in its values.
_TEXT_SLUGS = {
    "syntax": "deepspeed-not-json",
    "lenient": "deepspeed-json-lenient",
    "duplicate": "deepspeed-key-twice",
}
_VALUE_SLUGS = {
    "auto": "deepspeed-auto-left",
    "batch": "deepspeed-batch-disagrees",
    "batch-missing": "deepspeed-batch-missing",
    "deprecated": "deepspeed-key-deprecated",
    "key-ignored": "deepspeed-key-unknown",
    "key-refused": "deepspeed-key-refused",
    "loss-scale": "deepspeed-loss-scale-invalid",
    "optimizer": "deepspeed-optimizer-refused",
    "path": "deepspeed-offload-path",
    "plan": "deepspeed-plan-disagrees",
    "precision": "deepspeed-precision-conflict",
    "removed": "deepspeed-key-removed",
    "schedule": "deepspeed-schedule-refused",
    "stage-ignored": "deepspeed-offload-ignored",
    "stage-refused": "deepspeed-stage-refused",
    "text": "deepspeed-text-for-value",
    "twice": "deepspeed-made-twice",
    "type": "deepspeed-wrong-type",
    "unused": "deepspeed-block-unused",
    "value": "deepspeed-value-invalid",
}


def check_job(context: Tree, job: Job) -> Iterator[Problem]:
    """Judge the configurations of a job for all rules named in the tables above."""
    for span, message in _unreadable(context, job):
        help_ = "name the file of the configuration, saved as UTF-8"
        yield Problem(_TEXT_SLUGS["syntax"], span, message, help_)
    for use in find_config_uses(context, job):
        for kind, slug in _TEXT_SLUGS.items():
            yield from (finding.under(slug) for finding in _check_text(use, kind))
    for use in find_config_uses(context, job):
        if use.root is not None:
            for fault in verify(_with_fewer_unknown(yaml.to_python(use.root)), use.known):
                yield _locate(use, use.root, fault).under(_VALUE_SLUGS[fault.kind])


def _check_text(use: ConfigUse, kind: str) -> Iterator[Finding]:
    """Report faults in the text of a file: one finding a kind, except for repeated keys."""
    faults = [fault for fault in use.faults if _kind(fault, use) == kind]
    for fault in faults if kind == "duplicate" else faults[:1]:
        first = (Related(use.source.span(*fault.first), "first here"),) if fault.first else ()
        rest = f" (and {len(faults) - 1} more)" if kind == "lenient" and len(faults) > 1 else ""
        span = use.source.span(fault.start, fault.end)
        yield Finding(span, fault.message + rest, fault.help, related=first)


def _kind(fault: json_text.Fault, use: ConfigUse) -> str:
    """Our own component and Hugging Face read strict JSON, DeepSpeed itself a lenient one."""
    strict = use.known.pinned or use.known.fills_auto is True
    return "syntax" if fault.kind == "lenient" and strict else fault.kind


def _unreadable(context: Tree, job: Job) -> Iterator[tuple[Span, str]]:
    """The inputs of steps that name something other than text, with the message."""
    for launch in read_launches(context, job):
        field = launch.step.inputs.get(INPUT)
        path = find_input_file(launch, INPUT)
        if field is None or field.span is None or path is None:
            continue
        if not context.inside(path) or not context.exists(path):
            continue  # said where data is judged
        if context.is_folder(path):
            yield field.span, f"`{path.name or path}` is a folder, not a file of JSON"
        elif context.text(path) is None:
            yield field.span, f"`{path.name}` is not UTF-8 text, or is larger than {limits.TEXT >> 20} MiB"


def _with_fewer_unknown(values: dict[str, Any]) -> dict[str, Any]:
    """A block with only the first unknown keys: every one is compared with all known keys."""
    known_keys = _known_keys()
    kept = {*islice((key for key in values if key not in known_keys), _MAX_UNKNOWN), *known_keys}
    return {
        key: _with_fewer_unknown(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if key in kept
    }


@cache
def _known_keys() -> frozenset[str]:
    """The keys of all blocks."""
    return frozenset(key for block in read_tables().blocks.values() for key in block.keys)


def _locate(use: ConfigUse, root: Mapping, fault: config.Finding) -> Finding:
    """A finding of ``verify`` at its place in the JSON."""
    span = _span(root, fault.path, on_key=fault.on_key)
    related = [Related(_span(root, path), label) for path, label in fault.related]
    if fault.kind == "batch" and use.launch.processes.span is not None:
        related.append(Related(use.launch.processes.span, "processes of an instance"))
    near = fault.help.removeprefix("did you mean `").removesuffix("`?") if fault.on_key else fault.help
    fix = Fix(span, f'"{near}"', safe=False) if near != fault.help else None
    return Finding(span, fault.message, fault.help, related=tuple(related), fix=fix)


def _span(root: Mapping, path: tuple[str | int, ...], *, on_key: bool = False) -> Span:
    """The place of a value or its key; for a block its key, for the whole file its brace."""
    node: Node = root
    key: Scalar | None = None
    for part in path:
        if isinstance(node, Mapping) and isinstance(part, str) and part in node:
            key, inner = node.key(part), node.get(part)
            assert inner is not None
            node = inner
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            break
    if key is None:
        return root.source.span(root.start, root.start + 1)
    return key.span if on_key or isinstance(node, Mapping) else node.span


def check_zero_stage_disagrees(context: Tree, job: Job) -> Iterator[Finding]:
    for use in _deepspeed.find_config_uses(context, job):
        requested = _input(use) if use.known.pinned else _flag(use.launch)
        stage = find_node(use.root, "zero_optimization", "stage")
        if requested is None or not isinstance(stage, Scalar) or type(stage.value) is not int:
            continue
        if stage.value != requested[0]:
            asked_stage, span, who, other = requested
            message = (
                f"{who} sets ZeRO stage {asked_stage:g}, but the DeepSpeed configuration sets {stage.value}"
            )
            related = (Related(stage.span, "the stage of the configuration"),)
            yield Finding(span, message, f"write {stage.value}, or remove {other}", related=related)


def _flag(launch: Launch) -> tuple[float, Span, str, str] | None:
    flag = read_flag(launch, "zero_stage", "zero_optimization_stage")
    span = launch.span(flag[1]) if flag is not None else None
    return None if flag is None or span is None else (flag[0], span, "the command", "the flag")


def _input(use: _deepspeed.ConfigUse) -> tuple[float, Span, str, str] | None:
    """The value of an input of our own component, which overrides the configuration."""
    field = use.launch.step.inputs.get("zero_stage")
    value = field.value.value if field is not None and isinstance(field.value, Literal) else None
    if field is None or field.span is None or not isinstance(value, int):
        return None
    return value, field.span, "the step", "the input"


def check_deepspeed_config_missing(context: Tree, job: Job) -> Iterator[Finding]:
    for launch, span, name in _deepspeed.find_missing_configs(context, job):
        scripts = launch.scripts(context)
        written_by_script = any(name.rpartition("/")[2] in script.text for script in scripts)
        if len(launch.commands) == 1 and scripts and not written_by_script:
            message = f"there is no `{name}` in the code folder"
            yield Finding(span, message, "correct the name, or put the file there")
