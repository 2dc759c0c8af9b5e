import functools

from metrics_of_ours import metrics


def build(input_shape, classes):
    raise NotImplementedError


def loss(outputs, targets, weight=1.0):
    return (outputs - targets).square().mean() * weight


@functools.cache
def prepare():
    raise NotImplementedError
