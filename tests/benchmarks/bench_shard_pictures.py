"""Sharding pictures that are kept as files against datasets, LitData and MosaicML's MDS.

Ours also makes sure that each can be decoded. `WORLDSIZE_BENCH_PICTURES` is their number: 200000 for the
full one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from generate_data import write_pictures
from peers import compare_writers, find_peers, shard_command

pytestmark = [pytest.mark.bench, pytest.mark.run, pytest.mark.timeout(7200)]

PICTURES = int(os.environ.get("WORLDSIZE_BENCH_PICTURES", "20000"))


def test_pictures_against_peers(tmp_path: Path) -> None:
    find_peers()
    source, out = write_pictures(tmp_path / "pictures", PICTURES), tmp_path / "out"
    ours = shard_command(source, out, format="images", image_storage="jpeg", image_size=224, image_mode="rgb")
    compare_writers("pictures", source, out, ours)
