"""Whether the GPUs of a VM size can run the torch or TensorFlow that an environment installs."""

from __future__ import annotations

from typing import NamedTuple

from worldsize.azureml.environment import Installed
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.facts import cuda
from worldsize.facts.cuda import Build, Capability, Gpu
from worldsize.facts.vm_sizes import VmSize

_X86_IMAGES = ("mcr.microsoft.com/azureml/",)
INDEX = "https://download.pytorch.org/whl/"


class Verdict(NamedTuple):
    """A fault: the slug of its rule, the message and the help."""

    slug: str
    message: str
    help: str


def judge_build(framework: Installed, size: VmSize, *, trains: bool = True) -> Verdict | None:
    """Find out why a framework does not work on a VM size; None if it works or this is unknown.

    Args:
        framework: What an environment installs; without a tag it is the build of Python's package index.
        size: The VM size.
        trains: Whether the step is distributed training, which wants GPUs.
    """
    gpu, tag = cuda.find_gpu(size.gpu_model), framework.tag
    if gpu is None or gpu.processor != "x86-64" or not size.devices or (tag or "").startswith("rocm"):
        return None
    if tag == "cpu":
        return _for_cpus(framework.text, size) if trains else None
    builds = cuda.find_builds(framework.package, framework.version)
    build = next((build for build in builds if build.tag == tag or (tag is None and build.default)), None)
    if build is not None and gpu.vendor != "NVIDIA":
        return _for_cuda(framework.text, gpu, size)
    if build is None or gpu.capability is None:
        return None
    if not build.may_run_on(gpu.capability):
        return _without_kernels(build, framework, gpu.capability, size)
    return _driver(build, framework, size)


def _for_x86(image: str, size: VmSize) -> Verdict | None:
    gpu = cuda.find_gpu(size.gpu_model)
    if gpu is None or gpu.processor == "x86-64" or not image.startswith(_X86_IMAGES):
        return None
    message = f"`{image}` is built for x86-64, but `{size.name}` has Arm processors (NVIDIA Grace)"
    help_ = "build on an image for linux/arm64, or choose a size with x86-64 processors"
    return Verdict("image-for-other-processor", message, help_)


def _for_cpus(text: str, size: VmSize) -> Verdict:
    message = f"`{text}` is a build for CPUs, so the {_gpus(size)} of `{size.name}` would idle"
    return Verdict(
        "cpu-build-on-gpu-size", message, "install a build for CUDA, or choose a size without GPUs"
    )


def _for_cuda(text: str, gpu: Gpu, size: VmSize) -> Verdict:
    message = f"`{text}` is a build for CUDA, but `{size.name}` has GPUs of {gpu.vendor} ({gpu.model})"
    help_ = "choose a size with NVIDIA GPUs, or an environment whose build is for ROCm"
    return Verdict("gpu-without-kernels", message, help_)


def _without_kernels(build: Build, framework: Installed, capability: Capability, size: VmSize) -> Verdict:
    version = framework.version
    kernels = f"{show_capability(build.kernels[0])} to {show_capability(build.kernels[-1])}"
    message = (
        f"`{framework.text}` (CUDA {build.cuda}) is compiled for compute capabilities {kernels},"
        f" but the GPUs of `{size.name}` have {show_capability(capability)}"
    )
    others = [other for other in cuda.find_builds(build.package, version) if other.may_run_on(capability)]
    newest = cuda.newest_running(build.package, capability)
    ways = [_written(version, other) for other in others[:1]]
    if newest is not None and newest.version != build.version:
        ways.append(_written(newest.version, newest))
    help_ = f"install {' or '.join(ways)}, or choose another size" if ways else "choose another size"
    return Verdict("gpu-without-kernels", message, help_)


def _driver(build: Build, framework: Installed, size: VmSize) -> Verdict | None:
    version, image = framework.version, framework.image
    needed, node = cuda.minimum_driver(build.cuda), cuda.node_driver(size.series)
    if needed is None or node is None or int(node.version.partition(".")[0]) >= needed:
        return None
    major = build.cuda.partition(".")[0]
    if f"cuda{major}" in image or f"cu{major}" in image:
        return None  # such an image contains the libraries with which CUDA runs on an older driver
    message = (
        f"`{framework.text}` (CUDA {build.cuda}) needs NVIDIA's driver {needed} or newer, but Azure ML's"
        f" nodes of `{size.name}` had {node.version} on {node.seen}"
    )
    older = [
        other
        for other in cuda.find_builds(build.package, version)
        if (cuda.minimum_driver(other.cuda) or needed) < needed
    ]
    help_ = f"install {_written(version, older[-1])}" if older else "install a build for an older CUDA"
    return Verdict("cuda-driver-too-old", message, help_)


def _written(version: str, build: Build) -> str:
    """The requirement of a build in a conda or requirements file."""
    whole = version if version.count(".") > 1 else f"{version}.0"
    if build.default or not build.tag:
        return f"`{build.package}=={whole}` from Python's package index (CUDA {build.cuda})"
    return f"`{build.package}=={whole}+{build.tag}` with `--extra-index-url {INDEX}{build.tag}`"


def show_capability(capability: Capability) -> str:
    """A compute capability as NVIDIA writes it, ``7.0``."""
    return f"{capability[0]}.{capability[1]}"


def _gpus(size: VmSize) -> str:
    return f"{size.devices} GPUs" if size.devices > 1 else "GPU"


def report_build(
    framework: Installed, size: VmSize, at_size: Span | None, *, trains: bool, shown: bool
) -> Problem | None:
    """Report a framework that does not work on a VM size, at its version or else at the size.

    Args:
        framework: the framework of a step's environment.
        size: the VM size that the step runs on.
        at_size: where the size is written.
        trains: whether the step is distributed training.
        shown: whether the environment is the user's own file, which can be pointed at.
    """
    verdict = _for_x86(framework.image, size) or judge_build(framework, size, trains=trains)
    span = framework.span if shown and framework.span is not None else at_size
    if verdict is None or span is None:
        return None
    related = (Related(at_size, size.gpu_model),) if at_size is not None and span != at_size else ()
    return Problem(verdict.slug, span, verdict.message, verdict.help, related)
