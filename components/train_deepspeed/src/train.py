"""Entry of the component ``train_deepspeed``, started once per GPU by Azure ML's PyTorch distribution."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from wsshards.errors import run_main
from wstrain.fine_tuning import add_fine_tuning
from wstrain.input_types import integer, number
from wstrain.launch.environment import read_pytorch_environment
from wstrain.settings import add_activation_checkpointing, parse_settings
from wstrain_deepspeed.config import DEVICES
from wstrain_torch.launch.start import start_training

STRATEGIES = {"deepspeed": "wstrain_deepspeed.strategy"}
COMMUNICATION = "wstrain_torch.launch.torch_distributed"


def add_zero(parser: argparse.ArgumentParser) -> None:
    """Add the inputs that only DeepSpeed has."""
    parser.add_argument("--zero_stage", type=integer(0, 3), default=2)
    parser.add_argument("--offload_optimizer", choices=DEVICES, default="none")
    parser.add_argument("--offload_parameters", choices=DEVICES, default="none")
    parser.add_argument("--offload_path", default="")
    parser.add_argument("--loss_scale", type=number(0), default=0.0)
    parser.add_argument("--ds_config", type=Path)


OPTIONS = (add_zero, add_activation_checkpointing, add_fine_tuning)


def main() -> None:
    """Read inputs and environment, then train."""
    launch = read_pytorch_environment(os.environ)
    settings = parse_settings(sys.argv[1:], started=launch.world_size, strategies=STRATEGIES, options=OPTIONS)
    strategy = STRATEGIES[settings.strategy]
    start_training(settings, launch, communication=COMMUNICATION, strategy=strategy)


if __name__ == "__main__":
    run_main(main)
