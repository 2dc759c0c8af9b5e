"""Entry of the component ``train_ddp``: started by Azure ML's PyTorch distribution or torchrun."""

from __future__ import annotations

import os
import sys

from wsshards.errors import run_main
from wstrain.fine_tuning import add_fine_tuning
from wstrain.launch.environment import read_pytorch_environment
from wstrain.settings import (
    add_activation_checkpointing,
    add_automatic_precision,
    add_compile,
    add_model_parallel,
    add_pipeline_schedule,
    add_sharding,
    add_weight_average,
    parse_settings,
)
from wstrain_torch.launch.start import start_training

STRATEGIES = {
    "ddp": "wstrain_ddp.ddp",
    "fsdp": "wstrain_ddp.fsdp",
    "tensor_parallel": "wstrain_ddp.tensor_parallel",
    "pipeline_parallel": "wstrain_ddp.pipeline_parallel",
}
COMMUNICATION = "wstrain_torch.launch.torch_distributed"
OPTIONS = (
    add_model_parallel,
    add_pipeline_schedule,
    add_activation_checkpointing,
    add_sharding,
    add_fine_tuning,
    add_weight_average,
    add_compile,
    add_automatic_precision,
)


def main() -> None:
    """Read inputs and environment, then train."""
    launch = read_pytorch_environment(os.environ)
    settings = parse_settings(sys.argv[1:], started=launch.world_size, strategies=STRATEGIES, options=OPTIONS)
    strategy = STRATEGIES[settings.strategy]
    start_training(settings, launch, communication=COMMUNICATION, strategy=strategy)


if __name__ == "__main__":
    run_main(main)
