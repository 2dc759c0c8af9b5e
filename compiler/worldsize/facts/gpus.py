"""GPUs by their short names: peak rates by precision, memory and links, from ``gpus.csv``."""

from __future__ import annotations

from functools import cache
from typing import Literal

from msgspec import Struct

from worldsize.facts import table

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")


class Gpu(Struct, frozen=True):
    """One GPU. Rates are the vendor's peaks without sparsity; those of precisions that it supports."""

    name: str
    architecture: str
    memory_bytes: float  # vendors print GB for what is GiB or a little less
    peak_flops: dict[str, float]  # floating-point operations a second, by precision
    memory_bytes_per_s: float
    link: str
    link_bytes_per_s: float  # to the GPUs of the same instance, in one direction
    source: str

    @property
    def has_fused_attention(self) -> bool:
        """Whether FlashAttention 2 runs on it (Dao 2023, arXiv:2307.08691: Ampere and newer)."""
        return self.architecture not in ("kepler", "pascal", "volta", "turing")

    @property
    def automatic_precision(self) -> Literal["bf16", "fp32"]:
        """What the trainers' ``auto`` means on it: bf16 if the GPU supports it (Ampere and newer)."""
        return "bf16" if "bf16" in self.peak_flops else "fp32"


def names() -> list[str]:
    """All names, oldest architecture first."""
    return [gpu.name for gpu in _gpus().values()]


def lookup(name: str) -> Gpu | None:
    """Find a GPU by its short name in any case (``A100-80GB``); None if there is none."""
    return _gpus().get(name.lower())


def lookup_model(gpu_model: str) -> Gpu | None:
    """Find a GPU by the ``gpu_model`` of a VM size; None if there is none."""
    return _by_model().get(gpu_model)


def lookup_product(product: str) -> Gpu | None:
    """Find a GPU by what its driver calls it (``NVIDIA A100-SXM4-80GB``); None if there is none.

    Every part of the short name must be a word of the product; the name with most parts wins.
    """
    words = set(product.lower().replace("-", " ").split())
    fitting = [gpu for name, gpu in _gpus().items() if words.issuperset(name.split("-"))]
    return max(fitting, key=lambda gpu: gpu.name.count("-"), default=None)


@cache
def _gpus() -> dict[str, Gpu]:
    return {row["gpu"].lower(): _read_gpu(row) for row in table.read_rows("gpus")}


@cache
def _by_model() -> dict[str, Gpu]:
    rows = table.read_rows("gpus")
    models = ((model, row["gpu"].lower()) for row in rows for model in row["gpu_models"].split(";") if model)
    return {model: _gpus()[name] for model, name in models}


def _read_gpu(row: dict[str, str]) -> Gpu:
    peaks = {name: float(row[f"{name}_tflops"]) * 1e12 for name in PRECISIONS if row[f"{name}_tflops"]}
    return Gpu(
        name=row["gpu"],
        architecture=row["architecture"],
        memory_bytes=float(row["memory_gigabytes"]) * 2**30,
        peak_flops=peaks,
        memory_bytes_per_s=float(row["memory_gigabytes_per_s"]) * 1e9,
        link=row["link"],
        link_bytes_per_s=float(row["link_gigabytes_per_s"]) * 1e9,
        source=row["source"],
    )
