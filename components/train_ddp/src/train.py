"""Entry of the component ``train_ddp``: started by Azure ML's PyTorch distribution or torchrun."""

from __future__ import annotations

import os
import sys

from wstrain.errors import entry
from wstrain.launch import read_pytorch
from wstrain.settings import (
    add_activation_checkpointing,
    add_model_parallel,
    add_pipeline_schedule,
    add_sharding,
    parse,
)
from wstrain.start import start

STRATEGIES = ("ddp", "fsdp", "tensor_parallel", "pipeline_parallel")
OPTIONS = (add_model_parallel, add_pipeline_schedule, add_activation_checkpointing, add_sharding)


def main() -> None:
    """Read inputs and environment, then train."""
    settings = parse(sys.argv[1:], strategies=STRATEGIES, options=OPTIONS)
    start(settings, read_pytorch(os.environ), communication="torch_distributed")


if __name__ == "__main__":
    entry(main)
