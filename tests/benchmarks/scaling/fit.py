"""Fit the constants of the step-time model on published training speeds.

    python tests/benchmarks/scaling/fit.py            prints the fit and its errors
    python tests/benchmarks/scaling/fit.py --write    also writes facts/step_time_constants.csv

The fit minimises the logarithm of estimated over published speed, with a loss that grows linearly beyond
4 % so that outliers count less, and a prior on each constant: a value that the physics suggests, and a
standard deviation of its logarithm.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from published import Published, read_published
from scipy.optimize import least_squares

from worldsize.facts import table
from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.calibration import NOT_CALIBRATED

CONSTANTS = Path(table.__file__).with_name("step_time_constants.csv")
SCALE = 0.04  # errors above this count linearly

# name: (value, standard deviation of its logarithm; 0 keeps the value, what it rests on)
PRIORS: dict[str, tuple[float, float, str]] = {
    "matmul_share.pascal": (0.75, 0.15, "large matrix products"),
    "matmul_share.volta": (0.75, 0.15, "large matrix products"),
    "matmul_share.ampere": (0.80, 0.15, "253.7 of 312 TFLOP/s at 8,192³: Azure/AI-benchmarking-guide"),
    "matmul_share.hopper": (0.75, 0.15, "large matrix products"),
    "attention_share.pascal": (0.40, 0.50, "no fused kernel"),
    "attention_share.volta": (0.40, 0.50, "no fused kernel"),
    "attention_share.ampere": (0.55, 0.30, "179.5 of 312 TFLOP/s at 8,192 tokens: Azure/AI-benchmarking-guide"),
    "attention_share.hopper": (0.33, 0.30, "327.9 of 989 TFLOP/s at 8,192 tokens: Azure/AI-benchmarking-guide"),
    "launch_seconds.pascal": (0.004, 0.50, "a hundred kernels at tens of microseconds, PyTorch and TensorFlow before 2021"),
    "launch_seconds.volta": (0.004, 0.50, "a hundred kernels at tens of microseconds, PyTorch and TensorFlow before 2021"),
    "launch_seconds.ampere": (0.001, 0.0, "a hundred kernels at ten microseconds"),
    "launch_seconds.hopper": (0.001, 0.0, "a hundred kernels at ten microseconds"),
    "straggler_share.pascal": (0.03, 0.50, "clusters of the years 2017 to 2020"),
    "straggler_share.volta": (0.03, 0.50, "clusters of the years 2017 to 2020"),
    "straggler_share.ampere": (0.01, 0.70, "clusters since 2021"),
    "straggler_share.hopper": (0.01, 0.70, "clusters since 2021"),
    "precision_gain.fp32": (1.2, 0.20, "no tensor cores to feed"),
    "precision_gain.tf32": (1.1, 0.15, "half the rate of 16 bits to feed"),
    "precision_gain.fp8": (0.85, 0.20, "1,290 of 1,979 TFLOP/s at 8,192³: Azure/AI-benchmarking-guide"),
    "convolution_share.fp32": (1.2, 0.30, "Winograd's algorithm needs fewer operations than are counted"),
    "convolution_share.tensor": (0.5, 0.30, "tensor cores"),
    "convolution_touches.full": (15.0, 0.30, "in fp32 and tf32: normalisation and activation read and write, forward and backward"),
    "convolution_touches.half": (10.0, 0.30, "in 16 bits: normalisation and activation are fused, channels last"),
    "convolution_touches.pascal": (20.0, 0.30, "nothing is fused, software of 2017"),
    "recomputed_share.none": (0.0, 0.0, "nothing"),
    "recomputed_share.selective": (0.45, 0.15, "every second matrix product is kept"),
    "recomputed_share.full": (0.75, 0.10, "all but the last of a layer's products, a third of its weights: torch.utils.checkpoint, early stop"),
    "memory_share": (0.80, 0.05, "1.61 of 2.04 TB/s copied on an A100: Azure/AI-benchmarking-guide"),
    "layer_touches": (40.0, 0.50, "activations between products, forward"),
    "score_touches": (5.0, 0.50, "scores, softmax and dropout, forward"),
    "head_touches": (14.0, 0.30, "logits in 16 bits, their copy in fp32, its softmax, and the gradients of these"),
    "weight_touches": (18.0, 0.30, "gathered weights unpacked twice, gradients packed and added"),
    "saturation_tokens": (250.0, 0.50, "tokens at which products are half as fast"),
    "exposed_share": (0.5, 0.50, "first gather and last scatter, and kernels that communication slows"),
    "exposed_share_replicated": (0.15, 0.50, "the last bucket, and kernels that communication slows"),
    "link_share": (0.75, 0.15, "230 to 250 of 300 GB/s on an A100: nccl-tests"),
    "rdma_share": (0.75, 0.20, "kernels of NCCL over InfiniBand"),
    "tcp_share": (0.5, 0.30, "25 of 50 Gbit/s: nccl-tests over sockets"),
    "hop_seconds": (5e-5, 0.50, "latency of a collective over instances"),
    "step_seconds": (0.003, 1.0, "loop, logging and reading of a batch"),
}  # fmt: skip

NAMES = [name for name, (_, deviation, _) in PRIORS.items() if deviation]
DEVIATIONS = np.array([PRIORS[name][1] for name in NAMES])


def make_constants(values: dict[str, float]) -> Constants:
    """Constants from flat names."""
    nested: dict[str, float | dict[str, float]] = {}
    for name, value in values.items():
        field, _, key = name.partition(".")
        if key:
            nested.setdefault(field, {})[key] = value  # type: ignore[index]
        else:
            nested[field] = value
    return Constants(**nested)  # type: ignore[arg-type]


def predict(row: Published, constants: Constants) -> float:
    """The estimate in the row's unit."""
    estimated = estimate(row.workload, row.training, row.cluster, NOT_CALIBRATED, constants)
    assert estimated is not None
    return row.predict(estimated)


def error(row: Published, constants: Constants) -> float:
    """Natural logarithm of estimated over published."""
    return math.log(predict(row, constants) / row.value)


def fit(rows: Sequence[Published]) -> dict[str, float]:
    """The constants with the least loss on these rows."""

    def values_at(logarithms: np.ndarray) -> dict[str, float]:
        fixed = {name: value for name, (value, _, _) in PRIORS.items()}
        return fixed | {n: PRIORS[n][0] * math.exp(x) for n, x in zip(NAMES, logarithms, strict=True)}

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        constants = make_constants(values_at(logarithms))
        errors = np.array([error(row, constants) for row in rows]) / SCALE
        robust = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))  # pseudo-Huber
        return np.concatenate([robust, logarithms / DEVIATIONS])

    solution = least_squares(residuals, np.zeros(len(NAMES)), max_nfev=40, xtol=1e-5, ftol=1e-5)
    return values_at(solution.x)


def describe(rows: Sequence[Published], constants: Constants, name: str) -> str:
    """Mean error, bias and shares within bounds of some rows."""
    errors = np.array([error(row, constants) for row in rows])
    relative = np.abs(np.exp(errors) - 1)
    return (
        f"{name:<28} {len(rows):>4} rows  mean error {relative.mean():6.2%}  bias {errors.mean():+6.2%}"
        f"  within 15 % {np.mean(relative <= 0.15):6.1%}  within 10 % {np.mean(relative <= 0.10):6.1%}"
    )


def write(values: dict[str, float]) -> None:
    """Write the constants with their priors."""
    with CONSTANTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "value", "prior", "prior_deviation", "prior_source"])
        for name, (prior, deviation, source) in PRIORS.items():
            writer.writerow([name, f"{values[name]:.4g}", f"{prior:g}", f"{deviation:g}", source])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the constants")
    options = parser.parse_args()
    rows = read_published()
    values = fit(rows)
    constants = make_constants(values)
    for name in NAMES:
        print(f"{name:<28} {values[name]:>10.4g}  prior {PRIORS[name][0]:>8g} ± {PRIORS[name][1]:.0%}")
    selections: dict[str, Callable[[Published], bool]] = {
        "RDMA transformers": lambda row: row.is_rdma_transformer,
        "others": lambda row: not row.is_rdma_transformer,
    }
    for name, selected in selections.items():
        print(describe([row for row in rows if selected(row)], constants, name))
    for row in sorted(rows, key=lambda row: -abs(error(row, constants)))[:25]:
        print(f"  {row.name:<44} {row.value:>12.5g} {math.expm1(error(row, constants)):+.1%}")
    if options.write:
        write(values)


if __name__ == "__main__":
    main()
