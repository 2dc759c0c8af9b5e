"""`train_batch_size` of the DeepSpeed configuration is not micro-batch × accumulation × processes.

DeepSpeed computes one of the three from the other two and the number of processes, and refuses what does
not fit.

Why: every rank stops with an assertion after the cluster has started.

Bad::

    "train_batch_size": 256

Good::

    "train_batch_size": 512

Fix: write the product, or leave one of the three out.

Source: DeepSpeed, configuration JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.diagnostics.problem import Problem, Related
from worldsize.rules import launch
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.launch import Launch
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping

RULE = Rule(
    "WS310",
    "deepspeed-batch-disagrees",
    "error",
    since="0.1.0",
    summary="a DeepSpeed batch that its parts do not make",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        world = _deepspeed.replicas(found)
        if world is not None:
            for root in _deepspeed.configs(context, found):
                yield from _judge(root, world, found)


def _judge(root: Mapping, world: int, found: Launch) -> Iterator[Problem]:
    whole = _deepspeed.whole(root, "train_batch_size")
    micro = _deepspeed.whole(root, "train_micro_batch_size_per_gpu")
    steps = _deepspeed.whole(root, "gradient_accumulation_steps")
    auto = any(name in root for name in ("train_micro_batch_size_per_gpu",)) and micro is None
    if whole is None or whole[0] < 1 or auto or ("gradient_accumulation_steps" in root and steps is None):
        return
    parts = [part[0] for part in (micro, steps) if part is not None]
    if any(part < 1 for part in parts):
        return
    product = world
    for part in parts:
        product *= part
    shown = " × ".join([*(str(part) for part in parts), f"{world} processes"])
    related = tuple(
        [
            Related(part[1].span, label)
            for part, label in ((micro, "micro-batch"), (steps, "accumulation"))
            if part
        ]
        + ([Related(found.processes.span, "processes of an instance")] if found.processes.span else [])
    )
    if micro is not None and steps is not None and whole[0] != product:
        message = f"`train_batch_size` is {whole[0]}, but {shown} is {product}"
        yield RULE.problem(whole[1].span, message, f"write {product}", related=related)
    elif (micro is None or steps is None) and whole[0] % product:
        near = max(whole[0] // product, 1) * product
        message = f"`train_batch_size` is {whole[0]}, which is no multiple of {shown} = {product}"
        yield RULE.problem(
            whole[1].span, message, f"write a multiple of {product}, such as {near}", related=related
        )
