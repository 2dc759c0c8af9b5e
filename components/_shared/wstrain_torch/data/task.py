"""The task of a training: how rows of shards become inputs, targets and a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from wsshards.errors import UserError
from wstrain.data.sample_spec import SampleSpec, make_sample_spec


@dataclass(frozen=True, slots=True)
class Task(SampleSpec):
    """A task of a PyTorch training.

    Attributes:
        prepare: ``(features [n, …], labels [n] | None) -> (inputs, targets)``, CPU tensors.
    """

    prepare: Callable[[npt.NDArray[np.generic], npt.NDArray[np.int64] | None], tuple[Tensor, Tensor]]

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats, over samples (and tokens); logits are ``[n, …, outputs]``."""
        return functional.cross_entropy(logits.float().flatten(0, -2), targets.flatten())

    def example(self, rows: int) -> Tensor:
        """Return zeros of the shape and dtype that the model is called with, ``[rows, …]``."""
        dtype = torch.int64 if self.name == "language_model" else torch.float32
        return torch.zeros(rows, *self.input_shape, dtype=dtype)


def make_task(name: str, shape: tuple[int, ...], dtype: str, classes: int) -> Task:
    """Return the task that a shard manifest describes.

    Args:
        name: the manifest's ``task``.
        shape: shape of one row's features.
        dtype: NumPy name of the features' type.
        classes: number of classes; ignored by a language model.

    Raises:
        UserError: the task is unknown, or nothing can be learned from such shards.
    """
    spec = make_sample_spec(name, shape, dtype, classes)
    prepare = _classification if spec.name == "classification" else _next_byte
    return Task(spec.name, spec.input_shape, spec.input_dtype, spec.outputs, prepare)


def _classification(
    features: npt.NDArray[np.generic], labels: npt.NDArray[np.int64] | None
) -> tuple[Tensor, Tensor]:
    if labels is None:
        raise UserError("the shards have no labels, but their manifest says classification")
    return torch.from_numpy(features).float(), torch.from_numpy(labels)


def _next_byte(features: npt.NDArray[np.generic], _: npt.NDArray[np.int64] | None) -> tuple[Tensor, Tensor]:
    tokens = torch.from_numpy(features).long()
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
