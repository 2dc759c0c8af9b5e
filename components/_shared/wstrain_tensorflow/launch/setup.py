"""Loads TensorFlow, and sets it up before its first operation."""

from __future__ import annotations

import os
from typing import Any

from wsshards.errors import UserError
from wstrain.launch.gpus import PlannedGpus, expect_gpus
from wstrain_tensorflow.launch.tf_config import NAME, Cluster

_POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


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
    import tensorflow as tf  # takes seconds

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
    _expect_arithmetic(tf, precision, gpus)
    # no TF32 in fp32: the loss must equal that of one process to 1e-4
    tf.config.experimental.enable_tensor_float_32_execution(precision != "fp32")


def _describe_build(tf: Any) -> str:
    cuda = tf.sysconfig.get_build_info().get("cuda_version")
    return f"TensorFlow {tf.__version__} {f'for CUDA {cuda}' if cuda else 'without CUDA'}"


def dtype_policy(precision: str) -> str:
    """Name of Keras' dtype policy: what layers compute in; weights and their updates stay fp32."""
    return _POLICIES[precision]


def _expect_arithmetic(tf: Any, precision: str, gpus: list[Any]) -> None:
    if precision == "fp16" and not gpus:
        raise UserError(
            "precision `fp16` needs a GPU: TensorFlow has no fast half precision on CPUs",
            "use `fp32` or `bf16`; `worldsize run --set STEP.precision=fp32` does so for one run",
        )
    if precision == "bf16" and gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        if details.get("compute_capability", (8, 0)) < (8, 0):
            name = details.get("device_name", "this GPU")
            raise UserError(
                f"precision `bf16` needs compute capability 8.0, more than `{name}` has",
                "use `fp16` or `fp32`",
            )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
