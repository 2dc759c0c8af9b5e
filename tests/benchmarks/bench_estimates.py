"""The step-time model against published speeds that were left out of its fit: `scaling/validate.py`."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).with_name("scaling")))

from published import read_published
from validate import LARGE, SMALL, plot, report, summarise, validate

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]


PICTURE = Path(__file__).parents[2] / "compiler" / "docs" / "validation.svg"


def test_speeds_that_were_left_out_of_the_fit(update_golden: bool) -> None:
    found = validate(read_published())
    if update_golden:
        plot(found, PICTURE)
    print("\n" + "\n".join(report(found)))
    for name in ("without the size", f"{SMALL} to {LARGE} GPUs: RDMA transformers"):
        got = summarise(found[name])
        assert got["mean_error"] <= 0.05, name
        assert got["within_15"] >= 0.90, name
        assert got["inside"] >= 0.80, name
        assert got["median_width"] <= 1.4, name
    for each in found[f"{SMALL} to {LARGE} GPUs: all"]:
        if each.row.unit == "efficiency":
            assert abs(each.predicted - each.row.value) <= 0.08, each.row.name
        if each.row.cluster.rdma is False:
            assert abs(math.log1p(each.error)) <= math.log(1.5), each.row.name
