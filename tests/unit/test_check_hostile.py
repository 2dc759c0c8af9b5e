"""A hostile file four times as long takes about four times the work, whatever it repeats."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import worldsize
from worldsize.rules import registry

HOSTILE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "fuzz" / "hostile.py"))
SMALL = 500  # bytes
SHAPES = {name: make for name, make in HOSTILE["SHAPES"].items() if make(SMALL) != make(4 * SMALL)}


@pytest.fixture(scope="module", autouse=True)
def _all_rules_are_loaded() -> None:
    for rule in registry.checked_rules():
        registry.load_checks(rule)


@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_no_faster_than_the_file(
    shape: str,
    calls: Callable[[Callable[[], object]], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = {}
    for size in (SMALL, 4 * SMALL):
        folder = tmp_path / str(size)
        folder.mkdir()
        HOSTILE["write"](SHAPES[shape](size), folder)
        monkeypatch.chdir(folder)
        work[size] = calls(lambda: worldsize.check("."))
    assert work[4 * SMALL] < 5 * work[SMALL]
