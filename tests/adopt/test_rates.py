"""Rates that a loop reports are of the rows of all processes."""

from __future__ import annotations

import pytest
from adopt_text import adopt_text

TEXT = """\
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

dataset = TensorDataset(torch.randn(64, 4))
loader = DataLoader(dataset, batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    start = time.perf_counter()
    seen, total = 0, 0.0
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += x.size(0)
        total += loss.item()
        INSIDE
    elapsed = time.perf_counter() - start
    rate = BEHIND
    print(rate)
"""


def adopt_rate(behind: str, inside: str = "pass") -> str:
    return adopt_text(TEXT.replace("BEHIND", behind).replace("INSIDE", inside)).text


@pytest.mark.parametrize(
    ("written", "adopted"),
    [
        ("seen / elapsed", "seen * WORLD_SIZE / elapsed"),
        ("seen / (time.perf_counter() - start)", "seen * WORLD_SIZE / (time.perf_counter() - start)"),
        ("seen / max(elapsed, 1e-9)", "seen * WORLD_SIZE / max(elapsed, 1e-9)"),
        ("seen * 4 / elapsed", "seen * 4 * WORLD_SIZE / elapsed"),
        ("len(dataset) / elapsed", "len(dataset) / elapsed"),  # all rows already
        ("len(loader) / elapsed", "len(loader) / elapsed"),  # steps, which all take together
        ("total / len(loader)", "total / len(loader)"),
        ("total / seen", "total / seen"),
    ],
)
def test_rows_behind_the_loop(written: str, adopted: str) -> None:
    assert f"    rate = {adopted}\n" in adopt_rate(written)


@pytest.mark.parametrize("rows", ["x.size(0)", "x.shape[0]", "len(x)", "seen"])
def test_rows_inside_the_loop(rows: str) -> None:
    text = adopt_rate("0", f"print({rows} / (time.perf_counter() - start))")
    assert f"print({rows} * WORLD_SIZE / (time.perf_counter() - start))" in text


def test_a_sum_over_all_processes_is_not_multiplied_again() -> None:
    text = adopt_rate("seen / elapsed; share = seen / len(dataset)")
    assert "seen = add_up(seen)" in text
    assert "rate = seen / elapsed;" in text


def test_a_rate_that_cannot_be_edited_is_reported() -> None:
    adoption = adopt_text(TEXT.replace("BEHIND", "(seen + 1) / elapsed").replace("INSIDE", "pass"))
    assert "this rate is of the rows of one process" in [left.message for left in adoption.obstacles]
