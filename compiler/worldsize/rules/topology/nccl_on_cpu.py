"""The command, or the script that it starts, asks for the NCCL backend on a VM size without GPUs.

NCCL moves data between GPUs only. A script that asks what the machine has, with
`torch.cuda.is_available()`, is left alone.

Why: Every process stops in `init_process_group`, after the cluster has started.

Bad::

    command: python -m training.train --backend nccl

Good::

    command: python -m training.train --backend gloo

Fix: Use `gloo`, or a size with GPUs.

Source: PyTorch, torch.distributed, which backend to use.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule("WS222", "nccl-on-cpu", "error", since="0.1.0", summary="the NCCL backend on a size without GPUs")


_FLAGS = ("backend", "dist_backend", "distributed_backend", "ddp_backend")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        if found.size is None or found.size.gpus:
            continue
        for flag in found.flags(*_FLAGS):
            span = found.span(flag.value) if flag.value is not None else None
            if flag.value is not None and flag.value.bare.lower() == "nccl" and span is not None:
                yield _problem(found, span)
    if any(_may_ask(context, found) for found in launch.of(context, job)):
        yield from _in_scripts(context, job)


def _may_ask(context: Context, found: launch.Launch) -> bool:
    """Whether a step on CPUs has a script of the user's own."""
    component = found.step.component
    if component is None or found.size is None or found.size.gpus:
        return False
    return component.path is None or not context.built_in(component.path)


def _in_scripts(context: Context, job: Job) -> Iterator[Problem]:
    # They parse Python, which a spec of built-in components need not wait for.
    from worldsize.rules.script._nccl import find_nccl_calls  # noqa: PLC0415
    from worldsize.rules.script._program import programs  # noqa: PLC0415

    for program in programs(context, job):
        if program.launch.size is None or program.launch.size.gpus:
            continue
        for module, call in find_nccl_calls(program):
            yield _problem(program.launch, module.span(call))


def _problem(found: launch.Launch, span: Span) -> Problem:
    assert found.size is not None
    message = f"`nccl` needs GPUs and `{found.size.name}` has none"
    related = (Related(found.size_span, "a size without GPUs"),) if found.size_span else ()
    return RULE.problem(span, message, "write `gloo`, or choose a size with GPUs", related=related)
