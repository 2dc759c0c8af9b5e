import sys

import mlflow
import numpy
import torch

import datasets

try:
    import transformers
except ImportError:
    transformers = None


def plot():
    import matplotlib
    from colours import COLOURS

    return matplotlib, COLOURS


print(datasets, mlflow, numpy, torch, transformers, sys.argv)
