"""Entry of the component ``train_tensorflow``: started by Azure ML's TensorFlow distribution, or alone."""

from __future__ import annotations

import argparse
import os
import sys

from wsshards.errors import run_main
from wstrain.fine_tuning import add_initial_weights
from wstrain.input_types import number
from wstrain.settings import add_weight_average, parse_settings
from wstrain_tensorflow.launch.start import MIRRORED, PARAMETER_SERVER, count_gpus, start_training
from wstrain_tensorflow.launch.tf_config import read_tf_config

STRATEGIES = (MIRRORED, PARAMETER_SERVER)


def add_join_timeout(parser: argparse.ArgumentParser) -> None:
    """Add the input that only this component has."""
    parser.add_argument("--join_timeout", type=number(0, above=True), default=600.0)


OPTIONS = (add_join_timeout, add_weight_average, add_initial_weights)


def main() -> None:
    """Read inputs and environment, then train."""
    cluster = read_tf_config(os.environ)
    replicas = cluster.worker_count * max(1, count_gpus())
    settings = parse_settings(sys.argv[1:], started=replicas, strategies=STRATEGIES, options=OPTIONS)
    start_training(settings, cluster)


if __name__ == "__main__":
    run_main(main)
