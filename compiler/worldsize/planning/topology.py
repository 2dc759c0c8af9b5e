"""How many processes there are: ``n`` instances, ``p`` processes each, ``W`` in all.

Source: Microsoft's guide "Distributed GPU training" for Azure Machine Learning.
"""

from __future__ import annotations

from worldsize.facts import frameworks
from worldsize.planning.model import Launcher


def processes_per_instance(launcher: Launcher, devices: int) -> int:
    """Processes that should run on each instance.

    Args:
        launcher: what starts them. TensorFlow starts one, which drives every GPU of its instance.
        devices: GPUs that a process sees on the instance; 0 on a CPU size, which gets one process.
    """
    framework = frameworks.lookup(launcher)
    return max(devices, 1) if framework is not None and framework.process_per_gpu else 1


def world_size(launcher: Launcher, instances: int, processes: int, devices: int) -> int:
    """The replicas of the model whose gradients are averaged: ``W``.

    For pytorch and mpi ``n·p``; for TensorFlow's MultiWorkerMirroredStrategy one replica a GPU, ``n·g``; one
    where nothing is distributed, whatever the number of instances.
    """
    if launcher == "none":
        return 1
    return instances * (max(devices, 1) if launcher == "tensorflow" else processes)
