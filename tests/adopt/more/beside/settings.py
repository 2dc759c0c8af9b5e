"""Parses the command line for a script."""

import argparse


def read_settings():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    return parser.parse_args()
