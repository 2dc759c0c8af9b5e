"""CUDA: compute capabilities of GPUs, builds of torch and TensorFlow, and the drivers that they need."""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from worldsize.facts import table

Capability = tuple[int, int]


class Gpu(Struct, frozen=True):
    """A GPU of the catalogue; ``capability`` is None if the vendor is not NVIDIA."""

    model: str
    vendor: str  # NVIDIA | AMD
    capability: Capability | None
    processor: str = "x86-64"  # of the VMs that have it; arm64 beside NVIDIA's Grace


class Build(Struct, frozen=True):
    """A build of a package for Linux on x86-64."""

    package: str
    version: str  # major and minor, `2.10`
    tag: str  # the local part of the version, `cu128`; empty if there is only one build
    default: bool  # whether it is the build on Python's package index
    cuda: str  # CUDA's version, `12.8`
    kernels: tuple[Capability, ...]  # the compute capabilities of its machine code
    ptx: Capability | None  # the capability of its portable code, which newer GPUs compile when a job starts

    def may_run_on(self, capability: Capability) -> bool:
        """Whether a GPU can run it: machine code within its major version, portable code on newer ones."""
        return self.has_machine_code(capability) or (self.ptx is not None and self.ptx <= capability)

    def has_machine_code(self, capability: Capability) -> bool:
        """Whether it holds code for the major version of a GPU."""
        return any(major == capability[0] and minor <= capability[1] for major, minor in self.kernels)


class NodeDriver(Struct, frozen=True):
    """The driver that was observed on Azure ML's nodes of a series, and the date."""

    version: str
    seen: str


def find_gpu(model: str) -> Gpu | None:
    """A GPU by the name that the catalogue of VM sizes gives it."""
    row = table.index_rows("gpu_capabilities", "gpu_model").get(model)
    if row is None:
        return None
    return Gpu(model, row["vendor"], _parse_capability(row["compute_capability"]), row["processor"])


def find_builds(package: str, version: str) -> tuple[Build, ...]:
    """The builds of a version (``2.10.0``, ``2.10``); empty if the version is unknown."""
    minor = ".".join(version.split(".")[:2])
    return tuple(build for build in _builds() if build.package == package and build.version == minor)


def newest_running(package: str, capability: Capability) -> Build | None:
    """The newest default build with machine code for a GPU, among those that need the oldest driver."""
    defaults = [build for build in _builds() if build.package == package and build.default]
    running = [build for build in defaults if build.has_machine_code(capability)]
    return max(
        running,
        key=lambda build: (-_version_numbers(build.cuda)[0], _version_numbers(build.version)),
        default=None,
    )


def minimum_driver(cuda: str) -> int | None:
    """The minimum branch of NVIDIA's driver for a CUDA version, by minor version compatibility."""
    row = table.index_rows("cuda_drivers", "cuda").get(cuda.partition(".")[0])
    return int(row["minimum_driver"]) if row is not None else None


def node_driver(series: str) -> NodeDriver | None:
    """The driver of Azure ML's nodes of a series, None if it is unknown."""
    row = table.index_rows("node_drivers", "series").get(series)
    return NodeDriver(row["driver"], row["seen"]) if row is not None else None


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _parse_capability(text: str) -> Capability | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if text else None


@cache
def _builds() -> tuple[Build, ...]:
    builds = []
    for row in table.read_rows("cuda_builds"):
        kernels = tuple(
            capability
            for text in row["compute_capabilities"].split()
            if (capability := _parse_capability(text))
        )
        ptx = _parse_capability(row["ptx"])
        default = row["default"] == "yes"
        builds.append(Build(row["package"], row["version"], row["build"], default, row["cuda"], kernels, ptx))
    return tuple(builds)
