"""Several processes of an instance use CUDA, and none asks for its ``LOCAL_RANK``.

This is read from the text of the script and of the modules beside it that it imports; nothing is run.

Why: All of them use GPU 0: NCCL refuses it, or the GPU runs out of memory while the others idle.

Bad::

    device = torch.device("cuda")

Good::

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))

Fix: Choose the device by ``LOCAL_RANK``, which Azure ML sets for every process.

Source: Microsoft Learn, Distributed GPU training guide: PyTorch environment variables.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script._module import constant
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS905", "local-rank-unused", "warning", since="0.1.0", summary="all processes of an instance on one GPU"
)


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    if program.launch.kind != "pytorch" or program.per_instance < 2 or not program.complete:
        return
    if program.says("LOCAL_RANK", "local_rank", "local-rank", "device_count", "VISIBLE_DEVICES"):
        return
    if not program.says("init_process_group"):
        return
    for module in program.modules:
        for node in module.nodes:
            is_call = (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "cuda"
            )
            if is_call or constant(node) in ("cuda", "cuda:0"):
                message = "all processes of an instance use this GPU: no `LOCAL_RANK` is read"
                help_ = 'write `torch.device("cuda", int(os.environ["LOCAL_RANK"]))`'
                yield RULE.problem(module.span(node), message, help_, related=program.related)
                return
