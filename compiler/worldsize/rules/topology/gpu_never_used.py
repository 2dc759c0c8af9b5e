"""A VM size with GPUs for scripts that compute on the CPU alone."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.base.wording import plural
from worldsize.rules.context import Context
from worldsize.rules.launch import Launch
from worldsize.rules.topology import _one_device


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    size, component = launch.size, launch.step.component
    if size is None or not size.devices or component is None or component.command is None:
        return
    if component.path is not None and context.built_in(component.path):
        return
    program = _one_device.never_uses_gpu(context, launch)
    span = launch.chosen_size_span
    if program is None or span is None:
        return
    gpus = plural(size.devices, "GPU")
    message = f"`{size.name}` has {gpus}, but `{program.path.name}` imports no package that uses one"
    yield Finding(span, message, "choose a size without GPUs for this step", related=program.related)
