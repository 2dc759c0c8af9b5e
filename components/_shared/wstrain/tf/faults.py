"""What TensorFlow raises, as one sentence where it is about the machine or about other processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from wstrain.errors import UserError
from wstrain.meeting import GRACE_SECONDS

_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


@contextmanager
def translated(others: int) -> Iterator[None]:
    """Name the fault.

    Args:
        others: processes besides this one.

    Raises:
        UserError: the device's memory is too small.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        first = (str(error.message).strip().splitlines() or ["no reason given"])[0][:120]
        raise UserError(
            f"the device is out of memory: {first}",
            "lower `batch_size_per_device`; more `gradient_accumulation_steps` keep the global batch",
        ) from error
    except _LOST:
        if others:
            # Another process has gone, probably: the meeting says which, and ends this one.
            time.sleep(4 * GRACE_SECONDS)
        raise
