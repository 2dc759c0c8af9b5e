"""Checks that the planned GPUs are there.

A training that was planned for GPUs would also run on CPUs, for weeks and silently. So the plan is compared
with the driver before a framework is loaded, and with the framework afterwards. Without a plan, as in the
designer, GPUs that the driver has but the framework cannot use are refused too.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wsshards.errors import UserError

if TYPE_CHECKING:
    from wstrain.settings import Settings

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")  # torchrun's and Open MPI's
_LIBRARY = "libcuda.so.1"
_MODULE = Path("/proc/driver/nvidia/version")
# The file in which a framework says what it was built for, and patterns of builds for CUDA and for AMD's
# GPUs.
_BUILD_FILES = {
    "torch": ("version.py", r"(?m)^cuda\b.*'", r"(?m)^hip\b.*'"),
    "tensorflow": ("python/platform/build_info.py", r"'is_cuda_build', True", r"'is_rocm_build', True"),
}
_VERSION = re.compile(r"\b(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)\b")  # of NVIDIA's driver, 570.195.03
_AMD = Path("/dev/kfd")  # the driver of AMD's GPUs, which `libcuda` does not know


@dataclass(frozen=True, slots=True)
class PlannedGpus:
    """The GPUs that an instance was planned to have.

    Attributes:
        gpus: Number of GPUs, a fraction on shared cards; 0 for CPUs, None without a plan.
        instance_type: The VM size, None if not known.
    """

    gpus: float | None = None
    instance_type: str | None = None

    def __str__(self) -> str:
        size = f" (`{self.instance_type}`)" if self.instance_type else ""
        return f"the plan is for {_gpus(self.gpus or 0)} an instance{size}"


@dataclass(frozen=True, slots=True)
class GpuDriver:
    """What NVIDIA's driver reports.

    Attributes:
        count: GPUs that this process may use.
        description: The state of the driver, for a message.
    """

    count: int
    description: str


@dataclass(frozen=True, slots=True)
class FrameworkBuild:
    """An installed framework.

    Attributes:
        description: Its name and version, for a message.
        blind: Whether it was built without support for GPUs.
        amd: Whether it was built for AMD's GPUs.
    """

    description: str
    blind: bool
    amd: bool = False


def planned_gpus(settings: Settings) -> PlannedGpus:
    """Return the planned GPUs, from the component's inputs."""
    return PlannedGpus(settings.planned_gpus_per_instance, settings.planned_instance_type)


def expect_gpus_before_import(planned: PlannedGpus, framework: str, local_rank: int = 0) -> None:
    """Compare the plan with the driver and the files of a framework, before the framework is imported.

    Args:
        planned: The GPUs that an instance was planned to have.
        framework: ``torch`` or ``tensorflow``.
        local_rank: The number of this process on its instance.

    Raises:
        UserError: the planned GPUs are not there, or the framework is a build that cannot use them.
    """
    if planned.gpus == 0:
        return
    build = installed_build(framework) or FrameworkBuild(framework, blind=False)
    driver = query_driver()
    if planned.gpus is None and not (build.blind and driver.count):
        return
    amd = build.amd or _AMD.exists()  # only the framework can count AMD's GPUs
    if build.blind:
        raise missing_gpus_error(planned, 0, f"{build.description} is a build without CUDA", driver)
    if not amd and driver.count < needed_gpus(planned, local_rank):
        raise missing_gpus_error(planned, driver.count, None, driver, local_rank)


def expect_gpus(planned: PlannedGpus, count: int, reason: str, local_rank: int = 0) -> None:
    """Compare the plan with the GPUs that a framework can use.

    Args:
        planned: The GPUs that an instance was planned to have.
        count: How many GPUs the framework can use.
        reason: The framework's explanation, for a message.
        local_rank: The number of this process on its instance.

    Raises:
        UserError: there are fewer GPUs than were planned, or than processes that want one.
    """
    if planned.gpus == 0 and not count:
        return
    driver = query_driver()
    if planned.gpus is None and not count and not driver.count:
        return
    if count < needed_gpus(planned, local_rank):
        raise missing_gpus_error(planned, count, reason, driver, local_rank)


def needed_gpus(planned: PlannedGpus, local_rank: int, env: Mapping[str, str] = os.environ) -> int:
    """Return how many GPUs the processes of this instance need.

    That is the planned number, or where ``CUDA_VISIBLE_DEVICES`` selects some of them, one for each process.
    """
    sizes = [int(env[name]) for name in _LOCAL_SIZES if env.get(name, "").isdigit()]
    one_each = max(local_rank + 1, *sizes) if sizes else local_rank + 1
    return one_each if _VISIBLE in env else max(one_each, math.ceil(planned.gpus or 0))


def missing_gpus_error(
    planned: PlannedGpus, count: int, reason: str | None, driver: GpuDriver, local_rank: int = 0
) -> UserError:
    """Return the error with the plan, the GPUs that are here, the reason, and the remedy."""
    visible = os.environ.get(_VISIBLE)
    if count and (visible is not None or count >= (planned.gpus or 0)):
        wanted = needed_gpus(planned, local_rank)
        cause = (
            f"`LOCAL_RANK` is {local_rank}" if wanted == local_rank + 1 else f"{wanted} processes start here"
        )
        return UserError(
            f"{cause} but this machine has {_gpus(count)}", f"set `process_count_per_instance` to {count}"
        )
    usable = f"{_gpus(count)} can be used here" if count else "none can be used here"
    expected = f"{planned}" if planned.gpus else f"this machine has {_gpus(driver.count)}"
    hidden = None if visible is None else f"`{_VISIBLE}` is `{visible}`"
    reasons = "; ".join(part for part in (reason, driver.description, hidden) if part)
    return UserError(f"{expected}, but {usable}: {reasons}", _advice(count, driver, hidden=bool(hidden)))


def _advice(count: int, driver: GpuDriver, *, hidden: bool) -> str:
    on_cpus = "set `planned_gpus_per_instance` to 0 to train on CPUs"
    if driver.count > count:
        return f"install a build of the framework for a CUDA that this driver offers, or {on_cpus}"
    if hidden:
        return f"leave `{_VISIBLE}` unset, or {on_cpus}"
    return f"run on the VM size of the plan, in an image with a build of the framework for CUDA, or {on_cpus}"


def describe_idle_gpus(planned: PlannedGpus, count: int, processes: int) -> str | None:
    """Return a warning where nothing was planned and this machine has more GPUs than processes; else None.

    Azure ML starts one process on an instance unless it is told otherwise, which the designer's form hides.

    Args:
        planned: The GPUs that an instance was planned to have; with a plan, the checker has said it.
        count: How many GPUs the framework can use here.
        processes: How many processes train here, each on one GPU.
    """
    if planned.gpus is not None or count <= processes:
        return None
    started = "1 process trains" if processes == 1 else f"{processes} processes train"
    return (
        f"this machine has {_gpus(count)}, but {started} on it: set `Process count per instance`"
        f" (`process_count_per_instance`) to {count}"
    )


def query_driver(library: str = _LIBRARY, module: Path = _MODULE) -> GpuDriver:
    """Ask NVIDIA's driver for its GPUs, without a framework."""
    try:
        version = _VERSION.search(module.read_text(encoding="ascii", errors="replace"))
    except OSError:
        version = None
    name = f"the NVIDIA driver {version[1]}" if version else "the NVIDIA driver"
    try:
        cuda = ctypes.CDLL(library)
        status = int(cuda.cuInit(0))
    except (OSError, AttributeError):
        return GpuDriver(0, f"{name} does not load (`{library}`)" if version else "no NVIDIA driver is here")
    number, count = ctypes.c_int(0), ctypes.c_int(0)
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
        name += f" offers CUDA {number.value // 1000}.{number.value % 1000 // 10}"
    if not status:
        status = int(cuda.cuDeviceGetCount(ctypes.byref(count)))
    if status:
        return GpuDriver(0, f"{name} and says `{_error(cuda, status)}`")
    return GpuDriver(count.value, f"{name} and has {_gpus(count.value)}")


def installed_build(framework: str) -> FrameworkBuild | None:
    """Return what the files of a framework say of its build; None if they are missing or unknown."""
    spec = importlib.util.find_spec(framework)
    if spec is None or not spec.submodule_search_locations:
        return None
    file, cuda, amd = _BUILD_FILES[framework]
    try:
        version = importlib.metadata.version(framework)
    except importlib.metadata.PackageNotFoundError:
        version = ""  # `tensorflow-cpu` is another package of the same name
    try:
        text = Path(spec.submodule_search_locations[0], file).read_text(encoding="utf-8")
    except OSError:
        return None
    for_cuda, for_amd = re.search(cuda, text), re.search(amd, text)
    return FrameworkBuild(
        f"{framework} {version}".strip(), blind=not for_cuda and not for_amd, amd=bool(for_amd)
    )


def _error(cuda: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    if cuda.cuGetErrorString(status, ctypes.byref(text)) == 0 and text.value:
        return text.value.decode("ascii", errors="replace")
    return f"error {status}"


def _gpus(count: float) -> str:
    return f"{count:g} GPU{'s' * (count > 1)}"
