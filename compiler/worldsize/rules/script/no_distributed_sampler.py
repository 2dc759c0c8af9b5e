"""The data loader of a `DistributedDataParallel` model shuffles all rows on every rank."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.script import _edits
from worldsize.rules.script._loops import find_assigned
from worldsize.rules.script._module import constant_value, find_mentions, keyword_argument
from worldsize.rules.script._program import Program

_SHARDS = ("Sampler", "sampler", ".shard(", "split_by_node", "rank::", "islice", "IterableDataset", "Subset(")


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.processes > 1 and program.imports("accelerate"):
        yield from _judge_accelerate(program)
    if program.processes < 2 or not program.complete or program.says(*_SHARDS):
        return
    if not any(module.called("DistributedDataParallel") for module in program.modules):
        return
    for module in program.modules:
        for call in module.called("DataLoader"):
            if (
                constant_value(keyword_argument(call, "shuffle")) is True
                and keyword_argument(call, "sampler") is None
            ):
                message = "every rank reads all rows: nothing divides them among the ranks"
                help_ = "write `sampler=DistributedSampler(rows)` in place of `shuffle=True`"
                fix = _edits.divide_rows(module, call)
                yield Finding(module.span(call), message, help_, related=program.related, fix=fix)
                return


def _judge_accelerate(program: Program) -> Iterator[Finding]:
    """Accelerate divides the rows of those loaders only that it has prepared."""
    calls = [call for module in program.modules for _, call in module.callers.get("prepare", ())]
    prepared = {ast.unparse(each) for call in calls for each in call.args}
    if not calls or program.says(*_SHARDS) or program.refers("prepare_data_loader"):
        return
    if any(each.startswith("*") for each in prepared):
        return
    for module in program.modules:
        for name, _, maker in find_assigned(module, "DataLoader"):
            loops = [node for node in module.kinds.get(ast.For, ()) if name in find_mentions(node.iter)]
            trains = any(
                above in loops
                for _, call in module.callers.get("backward", ())
                if call.args
                for above, _ in module.ancestors(call)
            )
            if trains and name not in prepared:
                message = f"every rank reads all rows: `accelerator.prepare` is not given `{name}`"
                help_ = f"add `{name}` to `accelerator.prepare(…)`, which divides its rows"
                yield Finding(module.span(maker), message, help_, related=program.related)
                return
