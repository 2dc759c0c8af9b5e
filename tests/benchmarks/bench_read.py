"""Reading shuffled batches against datasets, LitData and MosaicML's MDS: rows of 64 floats, and pictures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from generate_data import write_pictures
from peers import HERE, find_peers, peer_python, report_ratio, shard_command

pytestmark = [pytest.mark.bench, pytest.mark.run, pytest.mark.timeout(1800)]

ROWS, WIDTH, PICTURES, SECONDS = 200_000, 64, 5_000, 5


def test_reading_floats_against_peers(tmp_path: Path) -> None:
    import numpy as np

    find_peers()
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, WIDTH), np.float32)
    (tmp_path / "source").mkdir()
    np.save(tmp_path / "source" / "rows.npy", rows)
    np.savez(tmp_path / "rows.npz", features=rows, label=rng.integers(0, 10, ROWS))
    _compare("floats", tmp_path / "source", tmp_path, shard_command(tmp_path / "rows.npz", tmp_path / "ours"))


def test_reading_pictures_against_peers(tmp_path: Path) -> None:
    find_peers()
    source = write_pictures(tmp_path / "source", PICTURES)
    ours = shard_command(source, tmp_path / "ours", format="images", image_storage="jpeg", image_size=224)
    _compare("pictures", source, tmp_path, ours)


def _compare(job: str, source: Path, folder: Path, ours: list[str]) -> None:
    """Write the data as each, read it with no and with two workers, and compare the better of both."""
    writers = {"worldsize": ours}
    for peer in find_peers():
        writers[peer] = [
            peer_python(),
            str(HERE / "peer_writers.py"),
            peer,
            job,
            str(source),
            str(folder / peer),
        ]
    rates = {}
    for name, command in writers.items():
        subprocess.run(command, check=True, capture_output=True)
        out = folder / ("ours" if name == "worldsize" else name)
        rates[name] = max(_read(name, job, out, workers) for workers in (0, 2))
        print(f"{name:10} {rates[name]:11,.0f} samples/s")
    report_ratio(f"read {job}", rates)


def _read(name: str, job: str, folder: Path, workers: int) -> float:
    python = sys.executable if name == "worldsize" else peer_python()
    command = [python, str(HERE / "peer_readers.py"), name, job, str(folder), str(SECONDS), str(workers)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(result.stdout.splitlines()[-1]))
