"""Sharding text against datasets, LitData and MosaicML's MDS: windows of bytes, and of tokens of JSON Lines.

`WORLDSIZE_BENCH_TEXT_MIB` is the size of the text: 10240 for the full one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from generate_data import write_documents, write_text
from peers import compare_writers, find_peers, shard_command

pytestmark = [pytest.mark.bench, pytest.mark.run, pytest.mark.timeout(7200)]

TEXT_MIB = int(os.environ.get("WORLDSIZE_BENCH_TEXT_MIB", "512"))


def test_bytes_against_peers(tmp_path: Path) -> None:
    find_peers()
    source, out = write_text(tmp_path / "text", TEXT_MIB << 20), tmp_path / "out"
    compare_writers("text", source, out, shard_command(source, out, format="text", sequence_length=1024))


def test_tokens_against_peers(tmp_path: Path) -> None:
    find_peers()
    source, out = write_documents(tmp_path / "documents", (TEXT_MIB << 20) // 8), tmp_path / "out"
    ours = shard_command(
        source, out, format="jsonl", text="text", tokenizer="tokenizer.json", sequence_length=1024
    )
    compare_writers("tokens", source, out, ours)
