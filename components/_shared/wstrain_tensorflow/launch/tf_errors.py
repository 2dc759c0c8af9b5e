"""Turns TensorFlow's errors about the machine or other processes into one sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from wstrain.health import memory
from wstrain.settings import Settings
from wstrain_tensorflow.launch.rendezvous import GRACE_SECONDS

_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


@contextmanager
def translate_errors(others: int, settings: Settings) -> Iterator[None]:
    """Translate the errors of a training.

    Args:
        others: number of other processes.
        settings: the component's inputs.

    Raises:
        UserError: the device's memory is too small.
    """
    try:
        yield
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        raise memory.out_of_memory_error(error, settings) from error
    except _LOST:
        if others:
            # Probably another process has died: the rendezvous names it, and ends this one.
            time.sleep(4 * GRACE_SECONDS)
        raise
