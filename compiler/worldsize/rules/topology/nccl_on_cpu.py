"""The command or its script uses NCCL, or chooses a GPU, on a VM size without GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch, read_launches
from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, relate
from worldsize.base.span import Span
from worldsize.rules.context import Context

_FLAGS = ("backend", "dist_backend", "distributed_backend", "ddp_backend")


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for launch in read_launches(context, job):
        if launch.size is None or launch.size.gpus:
            continue
        for flag in launch.flags(*_FLAGS):
            span = launch.span(flag.value) if flag.value is not None else None
            if flag.value is not None and flag.value.bare.lower() == "nccl" and span is not None:
                yield _problem(launch, span)
    if any(_may_ask(context, launch) for launch in read_launches(context, job)):
        yield from _in_scripts(context, job)


def _may_ask(context: Context, launch: Launch) -> bool:
    """Whether a step on CPUs runs a script of the user."""
    component = launch.step.component
    if component is None or launch.size is None or launch.size.gpus:
        return False
    return not context.is_built_in(component)


def _in_scripts(context: Context, job: Job) -> Iterator[Finding]:
    # They parse Python, which a spec of built-in components need not wait for.
    from worldsize.scripts.interface.read import read_reached
    from worldsize.scripts.program import find_programs
    from worldsize.scripts.settings import find_nccl_calls

    for program in find_programs(context, job):
        if program.launch.size is None or program.launch.size.gpus:
            continue
        calls = list(find_nccl_calls(program))
        for module, call in calls:
            yield _problem(program.launch, module.span(call))
        reached = None if calls else read_reached(program)
        for module in program.modules if reached is not None else ():
            for call in module.called("torch.cuda.set_device"):
                if reached is not None and reached.surely_runs(module, call):
                    yield _problem(program.launch, module.span(call), "`torch.cuda.set_device`", "choose")


def _problem(
    launch: Launch, span: Span, what: str = "`nccl`", do: str = "write `gloo`, or choose"
) -> Finding:
    assert launch.size is not None
    message = f"{what} needs GPUs, but `{launch.size.name}` has none"
    related = relate(launch.size_span, "a size without GPUs")
    return Finding(span, message, f"{do} a size with GPUs", related=related)
