"""What `shard_data` reads when nothing says it, as in the designer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.smoke
@pytest.mark.run
def test_nothing_is_read_as_the_digits_and_data_as_a_whole(shard: Run, tmp_path: Path) -> None:
    done = shard(shards=tmp_path / "digits", seed=1)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "digits" / "manifest.json").read_text())
    assert (manifest["source"], manifest["task"]) == ("builtin:digits", "classification")
    (tmp_path / "a.csv").write_text("x,label\n" + "".join(f"{row},{row % 2}\n" for row in range(40)))
    done = shard(data=tmp_path / "a.csv", shards=tmp_path / "table")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "table" / "manifest.json").read_text())["source"] == "."


def test_settings_of_files_without_files_are_refused(shard: Run, tmp_path: Path) -> None:
    done = shard(shards=tmp_path / "shards", label="price")
    assert done.returncode == 2
    assert "error: `label` is `price`, but no `data` is given" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "shards" / "manifest.json").exists()
