"""The environment of an adopted script: the packages it imports, with the versions installed here."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.adopting.model import Framework, ScriptProfile
from worldsize.azureml.environment import Installed
from worldsize.azureml.gpu_support import INDEX, judge_build
from worldsize.facts import cuda, vm_sizes
from worldsize.facts.vm_sizes import VmSize

# The images of our own components: CUDA's driver libraries and Open MPI, with conda.
IMAGES: dict[Framework, str] = dict.fromkeys(
    ("torch", "lightning", "transformers", "accelerate", "keras"),
    "mcr.microsoft.com/azureml/openmpi5.0-cuda12.4-ubuntu22.04:20260715.v1",
)
# What a framework needs beside what a script imports.
_NEEDED: dict[Framework, tuple[str, ...]] = {
    "torch": ("torch", "numpy"),
    "lightning": ("torch", "numpy"),
    "transformers": ("accelerate", "torch", "numpy"),
    "accelerate": ("torch", "numpy"),
    "keras": ("tensorflow", "tf-keras"),
}
_PIP = "25.2"
_WITH_CUDA = {"tensorflow": "tensorflow[and-cuda]"}


class Environment(Struct, frozen=True):
    """The conda file as plain values, and the modules that no package here provides, or what they need."""

    image: str
    conda: dict[str, Any]
    unknown: tuple[str, ...]


def list_local_modules(folder: Path, script: str) -> tuple[str, ...]:
    """The modules and packages of a folder that a script there can import."""
    names = (
        path.stem if path.is_file() else path.name
        for path in folder.iterdir()
        if path.name != script
        and (path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py"))))
        and not path.name.startswith(".")
    )
    return tuple(sorted(name for name in names if name.isidentifier()))


def pin_environment(
    name: str, profile: ScriptProfile, local: Sequence[str], instance_type: str
) -> Environment:
    """The environment of a script.

    Args:
        name: Of the conda environment.
        profile: Of the script: its framework, what it imports, and what its calls need.
        local: Modules beside it, which no package provides.
        instance_type: The VM size, whose GPUs and driver the build of torch is for.
    """
    providers = _read_providers()
    pins: dict[str, str] = {}
    unknown = []
    for module in profile.imports:
        if module in local:
            continue
        package = _choose(module, providers.get(module, ()))
        if package is None:
            unknown.append(module)
        else:
            pins |= _pin(package)
    for package in _NEEDED[profile.framework]:
        pins |= _pin(package)
    for need in profile.needs:
        pinned = next(filter(None, map(_pin, need)), {})
        pins |= pinned
        unknown += [] if pinned else [need[0]]
    lines = [*_choose_build(pins, instance_type), *(pins[name] for name in sorted(pins))]
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    conda = {
        "name": name,
        "channels": ["conda-forge"],
        "dependencies": [f"python={python}", f"pip={_PIP}", {"pip": lines}],
    }
    return Environment(IMAGES[profile.framework], conda, tuple(dict.fromkeys(unknown)))


_read_providers = cache(metadata.packages_distributions)  # each installed file is looked at


def _choose(module: str, packages: Sequence[str]) -> str | None:
    """The package of a module; of several that share it, the one with its name, else the first."""
    normal = [normalise(package) for package in packages]
    return next((name for name in normal if name == normalise(module)), min(normal, default=None))


def _pin(package: str) -> dict[str, str]:
    """The pin of an installed package by its name; empty if it is not installed."""
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return {}
    # `2.10.0+cpu` is the build of this machine; the job takes the one for its GPUs.
    return {package: f"{_WITH_CUDA.get(package, package)}=={version.partition('+')[0]}"}


def _choose_build(pins: dict[str, str], instance_type: str) -> list[str]:
    """Pin the build of torch for the GPUs and the driver of a VM size, and return the option for its index.

    Python's package index serves one build of each version, which may want a newer driver.
    """
    size, version = vm_sizes.lookup(instance_type), pins.get("torch", "").partition("==")[2]
    if size is None or not version:
        return []

    def works(tag: str | None) -> bool:
        return judge_build(Installed("torch", version, tag, f"torch=={version}", None), size) is None

    builds = cuda.find_builds("torch", version)
    tag = next((build.tag for build in reversed(builds) if build.tag and works(build.tag)), None)
    if works(None):
        return []
    if tag is None:
        _choose_version(pins, size)
        return []
    pins["torch"] = f"torch=={version}+{tag}"
    return [f"--extra-index-url {INDEX}{tag}"]


def _choose_version(pins: dict[str, str], size: VmSize) -> None:
    """Pin another version of torch, where no build of the installed one runs on the GPUs of a size."""
    gpu = cuda.find_gpu(size.gpu_model)
    build = cuda.newest_running("torch", gpu.capability) if gpu is not None and gpu.capability else None
    if build is None:
        return  # the checker says that the size is to be another
    pins["torch"] = f"torch=={build.version}.0"
    for package in pins.keys() - {"torch"}:  # such as torchvision, of which each version wants one of torch
        needs = metadata.requires(package) or ()
        pins[package] = package if any(re.match(r"torch\s*==", need) for need in needs) else pins[package]


def normalise(name: str) -> str:
    """The name of a package in the one spelling that pip compares."""
    return re.sub(r"[-_.]+", "-", name).lower()
