"""Jobs as published guides print them: each is flagged for what is wrong with it, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import case_pages
import pytest

import worldsize

PAGE = Path(__file__).with_name("published_guides.md")

# What is said of each file. The fault of a script is reported in the script.
WRONG = {
    "compute/v100-cluster.yml": {"WS202"},  # retired
    "jobs/1_four_v100_nodes.yml": {"WS204"},  # 8 of 16 GPUs idle
    "jobs/2_four_a100_nodes.yml": {"WS204"},  # 16 of 32 GPUs idle
    "jobs/3_tensorflow_workers.yml": {"WS208"},  # 8 workers on 2 instances
    "jobs/4_parameter_server.yml": {"WS219"},  # a strategy without parameter servers
    "jobs/5_count_at_top_level.yml": {"WS147"},  # belongs under resources
    "src/train_guarded.py": {"WS922"},  # saves only if a name that nothing sets is 0
    "src/train_loop.py": {"WS902", "WS930"},  # no set_epoch, no import os
}


def test_what_the_guides_print_is_reported_word_for_word(
    written: Callable[[Path], Path], update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written(PAGE))
    report = worldsize.check(".")
    found: dict[str, set[str]] = {}
    for one in report.diagnostics:
        found.setdefault(Path(one.span.path).as_posix(), set()).add(one.code)
    assert found == WRONG
    whole = case_pages.read(PAGE).cases[-1]
    if update_golden:
        case_pages.write_expected(whole, report.render())
    else:
        assert report.render() == whole.expected
