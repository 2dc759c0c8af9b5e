"""The charts of the page: names in legends."""

from __future__ import annotations

import pytest

from worldsize.serving.page.views.charts import LONGEST_NAME, fit_names

BASE = "Handwritten digits, PyTorch DDP"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["train", "loss"], ["train", "loss"]),
        (
            [f"{BASE} · train", f"{BASE}, smaller learning rate · train"],
            [f"{BASE} · train", "Handwritten digits,…earning rate · train"],
        ),
        ([f"{BASE}{number}{'x' * 30}" for number in range(2)], None),  # alike at both ends: left as they are
    ],
)
def test_a_long_name_keeps_its_end(names: list[str], shown: list[str] | None) -> None:
    fitted = fit_names({name: [(1.0, 2.0)] for name in names})
    assert list(fitted) == (shown or names)
    assert shown is None or all(len(name) <= LONGEST_NAME for name in fitted)
