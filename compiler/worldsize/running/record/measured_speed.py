"""Reads how fast the training steps of a run were, from what they reported."""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from worldsize.base import untrusted
from worldsize.facts import gpus
from worldsize.resolving.measured_case import SPEED, Speed, ran_without_gpus
from worldsize.running.prepare.machine import detect_gpu_products
from worldsize.running.record.history import RECORD
from worldsize.running.record.json_files import read_json
from worldsize.running.record.reports import parse_progress

FIRST_STEPS = 3  # left out: they compile, connect and fill caches
MIN_REPORTS = 3
# Standard error of a median over that of a mean, of normal numbers: √(π/2) (Kenney and Keeping 1962, 13.13).
_OF_MEDIAN = math.sqrt(math.pi / 2)


def read_speeds(root: Path) -> dict[str, Speed]:
    """The speed of every step in a run's folder that reported enough; a damaged report is left out."""
    steps = (read_json(root / RECORD) or {}).get("steps")
    speeds = {}
    for name, recorded in steps.items() if isinstance(steps, dict) else ():
        speed = summarise_speed(
            _read_reports(root / "steps" / name / "progress.jsonl"), _parameters(recorded)
        )
        if speed is not None:
            speeds[name] = speed
    return speeds


def add_gpu(speed: Speed) -> Speed:
    """The speed of a run of this machine, with the machine's GPU if it used one whose name is known."""
    return speed if ran_without_gpus(speed) else replace(speed, gpu=find_gpu_here())


def find_gpu_here() -> str | None:
    """The short name of this machine's first GPU; None if it has none, or one of which no speed is known."""
    return _ask_driver(shutil.which("nvidia-smi"))


@cache
def _ask_driver(_program: str | None) -> str | None:
    """Many runs are listed at once, and the driver takes a while."""
    products = detect_gpu_products()
    gpu = gpus.lookup_product(products[0]) if products else None
    return gpu.name if gpu is not None else None


def summarise_speed(reports: Sequence[tuple[int, float]], parameters: Mapping[str, str]) -> Speed | None:
    """The speed of reports, each a count of steps and samples a second; None for fewer than three.

    The first steps are left out.
    """
    kept = [speed for step, speed in reports if step > FIRST_STEPS and math.isfinite(speed) and speed > 0]
    if len(kept) < MIN_REPORTS:
        return None
    deviation = statistics.stdev(map(math.log, kept)) * _OF_MEDIAN / math.sqrt(len(kept))
    return Speed(statistics.median(kept), deviation, parameters)


def _read_reports(path: Path) -> list[tuple[int, float]]:
    with untrusted.passed_over():
        records = (parse_progress(line) for line in untrusted.read_lines(path))
        return [
            (record.step, record.samples_per_second)
            for record in records
            if record is not None and record.step is not None and record.samples_per_second is not None
        ]
    return []


def _parameters(recorded: Any) -> dict[str, str]:
    listed = recorded.get("parameters") if isinstance(recorded, dict) else None
    return {str(name): str(value) for name, value in listed.items()} if isinstance(listed, dict) else {}


def read_mlflow_speed(run_id: str) -> Speed | None:
    """The speed of a run of the tracking server in use, by all that it logged; None for too little.

    Raises:
        MlflowException: There is no such run, or the server does not answer.
    """
    import mlflow  # takes seconds

    client = mlflow.MlflowClient()
    parameters = client.get_run(run_id).data.params
    history = client.get_metric_history(run_id, SPEED)
    return summarise_speed([(point.step, point.value) for point in history], parameters)
