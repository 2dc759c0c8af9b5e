"""CUDA: the capabilities of GPUs, the builds of torch and TensorFlow, the drivers that they need."""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from worldsize.facts import table

Capability = tuple[int, int]


class Gpu(Struct, frozen=True):
    """A GPU of the catalogue; ``capability`` is None where it is not NVIDIA's."""

    model: str
    vendor: str  # NVIDIA | AMD
    capability: Capability | None
    processor: str = "x86-64"  # of the VMs that have it; arm64 beside NVIDIA's Grace


class Build(Struct, frozen=True):
    """A build of a package for Linux on x86-64.

    Attributes:
        version: major and minor, ``2.10``.
        tag: as the version's local part names it, ``cu128``; empty where there is one build only.
        default: whether Python's package index serves it.
        cuda: CUDA's version, ``12.8``.
        kernels: compute capabilities that it has machine code for.
        ptx: the capability of its portable code, which newer GPUs can compile when a job starts.
    """

    package: str
    version: str
    tag: str
    default: bool
    cuda: str
    kernels: tuple[Capability, ...]
    ptx: Capability | None

    def may_run_on(self, capability: Capability) -> bool:
        """Whether a GPU can run it: machine code within its major version, portable code on newer ones."""
        major, minor = capability
        native = any(own == major and least <= minor for own, least in self.kernels)
        return native or (self.ptx is not None and self.ptx <= capability)


class NodeDriver(Struct, frozen=True):
    """The driver that was seen on Azure ML's nodes of a series, and when."""

    version: str
    seen: str


def find_gpu(model: str) -> Gpu | None:
    """A GPU by the name that the catalogue of VM sizes gives it."""
    return _gpus().get(model)


def find_builds(package: str, version: str) -> tuple[Build, ...]:
    """The builds of a version (``2.10.0``, ``2.10``); none where nothing is known of it."""
    minor = ".".join(version.split(".")[:2])
    return tuple(each for each in _builds() if each.package == package and each.version == minor)


def newest_running(package: str, capability: Capability) -> Build | None:
    """The default build with machine code for a GPU that needs the oldest driver, of these the newest."""
    own = [each for each in _builds() if each.package == package and each.default]
    fit = [each for each in own if _has_machine_code(each, capability)]
    return max(fit, key=lambda each: (-_version_numbers(each.cuda)[0], _version_numbers(each.version)), default=None)


def minimum_driver(cuda: str) -> int | None:
    """The branch of NVIDIA's driver that a CUDA version needs at least, by minor version compatibility."""
    found = _drivers().get(cuda.partition(".")[0])
    return int(found) if found else None


def node_driver(series: str) -> NodeDriver | None:
    """The driver of Azure ML's nodes of a series, where it is known."""
    return _node_drivers().get(series)


def _has_machine_code(build: Build, capability: Capability) -> bool:
    return any(own == capability[0] and least <= capability[1] for own, least in build.kernels)


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _parse_capability(text: str) -> Capability | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if text else None


@cache
def _gpus() -> dict[str, Gpu]:
    return {
        row["gpu_model"]: Gpu(
            row["gpu_model"], row["vendor"], _parse_capability(row["compute_capability"]), row["processor"]
        )
        for row in table.read_rows("gpu_capabilities")
    }


@cache
def _builds() -> tuple[Build, ...]:
    found = []
    for row in table.read_rows("cuda_builds"):
        kernels = tuple(each for text in row["compute_capabilities"].split() if (each := _parse_capability(text)))
        ptx = _parse_capability(row["ptx"])
        default = row["default"] == "yes"
        found.append(Build(row["package"], row["version"], row["build"], default, row["cuda"], kernels, ptx))
    return tuple(found)


@cache
def _drivers() -> dict[str, str]:
    return {row["cuda"]: row["minimum_driver"] for row in table.read_rows("cuda_drivers")}


@cache
def _node_drivers() -> dict[str, NodeDriver]:
    return {row["series"]: NodeDriver(row["driver"], row["seen"]) for row in table.read_rows("node_drivers")}
