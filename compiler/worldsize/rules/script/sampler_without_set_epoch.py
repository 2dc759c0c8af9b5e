"""A ``DistributedSampler`` is used for several epochs and never told which epoch it is.

This is read from the text of the script and of the modules beside it that it imports; nothing is run.

Why: Every epoch has the same order and every rank the same rows, so shuffling has no effect after the
first epoch.

Bad::

    for epoch in range(epochs):
        for rows, labels in loader:

Good::

    for epoch in range(epochs):
        sampler.set_epoch(epoch)

Fix: Call ``sampler.set_epoch(epoch)`` at the start of each epoch.

Source: PyTorch documentation, ``torch.utils.data.distributed.DistributedSampler``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script._module import Module, constant, keyword, mentions
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS902",
    "sampler-without-set-epoch",
    "warning",
    since="0.1.0",
    summary="a sampler that shuffles once and for all",
)


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    if not program.complete or program.says("set_epoch") or not _has_epochs(program):
        return
    for module in program.modules:
        for call in module.called("DistributedSampler"):
            if constant(keyword(call, "shuffle")) is False:
                continue
            message = "this sampler is never told the epoch, so every epoch has the same order"
            help_ = "call `sampler.set_epoch(epoch)` at the start of each epoch"
            yield RULE.problem(module.span(call), message, help_, related=program.related)
            return


def _has_epochs(program: Program) -> bool:
    return any(module.once(_counts_epochs) for module in program.modules)


def _counts_epochs(module: Module) -> bool:
    return any(
        "epoch" in word.lower()
        for node in module.kinds.get(ast.For, ())
        for word in (*mentions(node.target), *mentions(node.iter))
    )
