"""Loads TensorFlow, sets it up before its first operation, and translates its errors.

TensorFlow takes seconds to import, so each function here imports it when it is called.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wstrain.health.memory import out_of_memory_error
from wstrain.launch.gpus import PlannedGpus, expect_gpus
from wstrain.settings import Settings
from wstrain_tensorflow.launch.rendezvous import GRACE_SECONDS
from wstrain_tensorflow.launch.tf_config import NAME, Cluster


def setup_tensorflow(cluster: Cluster, planned: PlannedGpus, *, local_size: int, precision: str) -> None:
    """Import TensorFlow and Keras 3 and choose threads, GPU memory and arithmetic.

    Args:
        cluster: which process this is; passed to TensorFlow as an argument, so ``TF_CONFIG`` is removed.
        planned: the GPUs that this process was planned to have.
        local_size: processes on this machine, which share its cores.
        precision: ``fp32``, ``bf16`` or ``fp16``.

    Raises:
        UserError: the planned GPUs are not there, or the device has no such arithmetic.
    """
    os.environ.pop(NAME, None)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # warnings and errors only
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    gpus = tf.config.list_physical_devices("GPU")
    expect_gpus(planned, len(gpus), f"{_describe_build(tf)} lists {len(gpus)} GPUs")
    if cluster.task == "ps":
        tf.config.set_visible_devices([], "GPU")  # servers run on CPUs
    elif gpus:
        if cluster.servers:
            tf.config.set_visible_devices(gpus[:1], "GPU")  # ParameterServerStrategy would run a copy on each
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    else:
        # Each TensorFlow process would use all cores of the machine.
        tf.config.threading.set_intra_op_parallelism_threads(max(1, _cores() // local_size))
    from wstrain_tensorflow.precision import set_precision

    set_precision(precision, gpus)


def _describe_build(tf: Any) -> str:
    cuda = tf.sysconfig.get_build_info().get("cuda_version")
    return f"TensorFlow {tf.__version__} {f'for CUDA {cuda}' if cuda else 'without CUDA'}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def translate_errors(others: int, settings: Settings) -> Iterator[None]:
    """Turn TensorFlow's errors about the machine or other processes into one sentence.

    Args:
        others: number of other processes.
        settings: the component's inputs.

    Raises:
        UserError: the device's memory is too small.
    """
    from tensorflow import errors

    lost = (
        errors.UnavailableError,
        errors.AbortedError,
        errors.CancelledError,
        errors.DeadlineExceededError,
        errors.InternalError,
    )
    try:
        yield
    except (errors.ResourceExhaustedError, MemoryError) as error:
        raise out_of_memory_error(error, settings) from error
    except lost:
        if others:
            # Probably another process has died: the rendezvous names it, and ends this one.
            time.sleep(4 * GRACE_SECONDS)
        raise
