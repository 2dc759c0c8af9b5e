"""The encoding of a table's rows as a layer: the same in the training and in the exported program."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from wstrain.data.table_encoding import (
    DAYS_PER_WEEK,
    DAYS_PER_YEAR,
    EPOCH_WEEKDAY,
    SECONDS_PER_DAY,
    TableEncoding,
)


class ColumnEncoder(nn.Module):
    """Encodes stored rows ``[n, width]`` as :mod:`wstrain.data.table_encoding` describes: ``[n, encoded]``.

    It has no weights, so a checkpoint does not hold it, and no precision but float32 meets a date.

    Args:
        encoding: its constants.
    """

    def __init__(self, encoding: TableEncoding) -> None:
        super().__init__()
        positions = [position for position, _ in encoding.categories]
        values = [float(value) for _, value in encoding.categories]
        for name, constant in (
            ("fill", torch.tensor(encoding.fill)),
            ("plain", _positions(encoding.plain)),
            ("category", _positions(positions)),
            ("value", torch.tensor(values)),
            ("missing", _positions(encoding.missing)),
            ("days", _positions(encoding.days)),
            ("mean_days", torch.tensor(encoding.mean_days)),
            ("order", _positions(encoding.order)),
        ):
            self.register_buffer(name, constant, persistent=True)

    fill: Tensor
    plain: Tensor
    category: Tensor
    value: Tensor
    missing: Tensor
    days: Tensor
    mean_days: Tensor
    order: Tensor

    def forward(self, rows: Tensor) -> Tensor:
        """``[n, width] -> [n, encoded]``, float32."""
        absent = rows.isnan()
        filled = torch.where(absent, self.fill, rows)
        days, seconds = filled[:, self.days], filled[:, self.days + 1]
        turns = [days / DAYS_PER_YEAR, (days + EPOCH_WEEKDAY) / DAYS_PER_WEEK, seconds / SECONDS_PER_DAY]
        angles = [2 * math.pi * (turn - turn.floor()) for turn in turns]
        groups = [
            filled[:, self.plain],
            (rows[:, self.category] == self.value).float(),
            absent[:, self.missing].float(),
            (days - self.mean_days) / DAYS_PER_YEAR,
            *(angle.sin() for angle in angles),
            *(angle.cos() for angle in angles),
        ]
        return torch.cat(groups, dim=1)[:, self.order]


def _positions(values: tuple[int, ...] | list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)
