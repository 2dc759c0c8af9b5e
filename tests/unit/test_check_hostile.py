"""A hostile file four times as long takes about four times the work, whatever it repeats."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import worldsize

HOSTILE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "fuzz" / "hostile.py"))
SMALL = 2_000  # bytes


@pytest.mark.parametrize("shape", HOSTILE["SHAPES"])
def test_work_grows_no_faster_than_the_file(
    shape: str,
    calls: Callable[[Callable[[], object]], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = []
    for size in (SMALL // 2, SMALL, 4 * SMALL):  # the first loads the rules
        folder = tmp_path / str(len(work))
        folder.mkdir()
        HOSTILE["write"](HOSTILE["SHAPES"][shape](size), folder)
        monkeypatch.chdir(folder)
        work.append(calls(lambda: worldsize.check(".")))
    assert work[2] < 6 * work[1]
