"""Entry of the component ``train_horovod``: started by Azure ML's MPI distribution or ``mpirun``."""

from __future__ import annotations

import argparse
import os
import sys

from wsshards.errors import run_main
from wstrain.fine_tuning import add_fine_tuning
from wstrain.launch.environment import read_mpi_environment
from wstrain.settings import add_automatic_precision, add_compile, add_weight_average, parse_settings
from wstrain_horovod.launch import expect_horovod, expect_reduction_possible
from wstrain_torch.launch.start import start_training

STRATEGIES = {"horovod": "wstrain_horovod.strategy"}
COMMUNICATION = "wstrain_horovod.communication"


def add_exchange(parser: argparse.ArgumentParser) -> None:
    """Add the inputs that decide how ranks combine gradients."""
    parser.add_argument("--reduction", choices=("average", "adasum"), default="average")
    parser.add_argument("--compression", choices=("none", "fp16"), default="none")


OPTIONS = (add_exchange, add_fine_tuning, add_weight_average, add_compile, add_automatic_precision)


def main() -> None:
    """Read inputs and environment, then train."""
    launch = read_mpi_environment(os.environ)
    settings = parse_settings(sys.argv[1:], started=launch.world_size, strategies=STRATEGIES, options=OPTIONS)
    if launch.world_size > 1:
        # A single process exchanges nothing. What no machine can do is refused before what this one lacks.
        expect_reduction_possible(
            settings.options["reduction"], precision=settings.precision, world_size=launch.world_size
        )
        expect_horovod()
    start_training(settings, launch, communication=COMMUNICATION, strategy=STRATEGIES[settings.strategy])


if __name__ == "__main__":
    run_main(main)
