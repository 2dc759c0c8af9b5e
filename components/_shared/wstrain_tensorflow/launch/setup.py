"""TensorFlow, loaded once the launch is known to be right, and set up before its first operation."""

from __future__ import annotations

import os
from typing import Any

from wsshards.errors import UserError
from wstrain.launch.gpus import PlannedGpus, expect_gpus
from wstrain_tensorflow.launch.tf_config import NAME, Cluster

_POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


def setup_tensorflow(cluster: Cluster, planned: PlannedGpus, *, neighbours: int, precision: str) -> None:
    """Import TensorFlow and Keras 3 and choose threads, GPU memory and arithmetic.

    Args:
        cluster: who this process is; TensorFlow is told by argument, so nothing else may read ``TF_CONFIG``.
        planned: the GPUs that this process was planned to have.
        neighbours: processes on this machine, which share its cores.
        precision: ``fp32``, ``bf16`` or ``fp16``.

    Raises:
        UserError: the planned GPUs are not there, or the device has no such arithmetic.
    """
    os.environ.pop(NAME, None)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # what is no warning is no news to a training
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import tensorflow as tf  # noqa: PLC0415  seconds, which a wrong launch should not wait for

    tf.get_logger().setLevel("ERROR")
    gpus = tf.config.list_physical_devices("GPU")
    expect_gpus(planned, len(gpus), f"{_words(tf)} lists {len(gpus)} GPUs")
    if cluster.task == "ps":
        tf.config.set_visible_devices([], "GPU")  # a server adds numbers; the workers want the memory
    elif gpus:
        if cluster.servers:
            tf.config.set_visible_devices(gpus[:1], "GPU")  # ParameterServerStrategy would run a copy on each
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    else:
        # TensorFlow takes all cores for each process; several on one machine would fight for them.
        tf.config.threading.set_intra_op_parallelism_threads(max(1, _cores() // neighbours))
    _expect_arithmetic(tf, precision, gpus)
    # fp32 means fp32: the law is promised to 1e-4
    tf.config.experimental.enable_tensor_float_32_execution(precision != "fp32")


def _words(tf: Any) -> str:
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
