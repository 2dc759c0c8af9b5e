"""The published training speeds of ``published.tsv``, as questions to the step-time model."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import get_args

from msgspec import Struct

from worldsize.facts import gpus
from worldsize.planning.estimates.model import Cluster, Estimate, Precision, Recomputation, Strategy, Training
from worldsize.spec.workload import Convolutional, Transformer, Workload

FILE = Path(__file__).with_name("published.tsv")
_RECOMPUTATION: dict[str, Recomputation] = {"true": "full", "selective": "selective", "false": "none"}


class Published(Struct, frozen=True):
    """One published speed: in tokens or samples a second, or as an efficiency."""

    name: str
    source: str
    model: str
    workload: Workload
    training: Training
    cluster: Cluster
    unit: str
    value: float

    @property
    def is_rdma_transformer(self) -> bool:
        """Whether the issue's first bound is about it."""
        return isinstance(self.workload, Transformer) and self.cluster.rdma is True

    def predict(self, estimate: Estimate) -> float:
        """The estimate in the unit of the published value."""
        if self.unit == "efficiency":
            assert estimate.scaling_efficiency is not None
            return estimate.scaling_efficiency
        speed = estimate.samples_per_second.expected
        if self.unit == "samples/s":
            return speed
        assert isinstance(self.workload, Transformer)
        tokens = speed * self.workload.sequence_length
        return tokens / self.cluster.world_size if self.unit == "tokens/s/gpu" else tokens


def read_published() -> list[Published]:
    """Every row of the file."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return [_read(row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def _read(row: dict[str, str]) -> Published:
    gpu = gpus.lookup(row["gpu"])
    assert gpu is not None, row["gpu"]
    precision: Precision = next(p for p in get_args(Precision) if p == row["precision"])
    strategy: Strategy = next(s for s in get_args(Strategy) if s == row["strategy"])
    return Published(
        name=row["id"],
        source=row["source"],
        model=row["model"],
        workload=_read_workload(row),
        training=Training(
            micro_batch=int(row["micro_batch"]),
            accumulation=int(row["accumulation"]),
            precision=precision,
            strategy=strategy,
            zero_stage=int(row["zero_stage"] or 0),
            recomputation=_RECOMPUTATION[row["checkpointing"]],
            optimizer=row["optimizer"],
        ),
        cluster=Cluster(
            gpu=gpu,
            gpus_per_instance=int(row["gpus_per_node"]),
            instance_count=int(row["nodes"]),
            link_bytes_per_s=gpu.link_bytes_per_s,
            network_bytes_per_s=float(row["network_gbit"]) / 8 * 1e9,
            rdma=row["rdma"] == "yes",
        ),
        unit=row["unit"],
        value=float(row["value"]),
    )


def _read_workload(row: dict[str, str]) -> Workload:
    if row["kind"] == "convolutional":
        return Convolutional(
            float(row["parameters"]), float(row["forward_flops"]), float(row["activation_bytes"])
        )
    return Transformer(
        parameters=float(row["parameters"]),
        layers=int(row["layers"]),
        width=int(row["width"]),
        heads=int(row["heads"]),
        vocabulary=int(row["vocabulary"]),
        sequence_length=int(row["sequence_length"]),
    )
