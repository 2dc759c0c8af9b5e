"""What is learned: how a batch of shards becomes inputs, targets and a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from wstrain.errors import UserError

VOCABULARY = 256  # a byte-level model reads and predicts bytes


@dataclass(frozen=True, slots=True)
class Task:
    """A task as the loop sees it.

    Attributes:
        name: ``classification`` or ``language_model``.
        input_shape: shape of one sample as the model gets it, without the batch dimension.
        input_dtype: NumPy name of the stored values.
        outputs: classes, or the vocabulary.
        prepare: ``(features [n, …], labels [n] | None) -> (inputs, targets)``, CPU tensors.
    """

    name: str
    input_shape: tuple[int, ...]
    input_dtype: str
    outputs: int
    prepare: Callable[[npt.NDArray[np.generic], npt.NDArray[np.int64] | None], tuple[Tensor, Tensor]]

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats, over samples (and tokens); logits are ``[n, …, outputs]``."""
        return functional.cross_entropy(logits.float().flatten(0, -2), targets.flatten())

    def example(self, rows: int) -> Tensor:
        """Return zeros of the shape and dtype that the model is called with, ``[rows, …]``."""
        dtype = torch.int64 if self.name == "language_model" else torch.float32
        return torch.zeros(rows, *self.input_shape, dtype=dtype)


def task_of(name: str, shape: tuple[int, ...], dtype: str, classes: int) -> Task:
    """Return the task that a shard manifest describes.

    Args:
        name: the manifest's ``task``.
        shape: shape of one row's features.
        dtype: NumPy name of the features' type.
        classes: number of classes; ignored by a language model.

    Raises:
        UserError: the task is unknown, or nothing can be learned from such shards.
    """
    if name == "classification":
        if classes < 2:
            raise UserError(f"the shards hold {classes} class, a classifier needs at least 2")
        return Task(name, shape, dtype, classes, _classification)
    if name == "language_model":
        if len(shape) != 1 or shape[0] < 2:
            raise UserError(
                f"language-model shards need rows of at least 2 tokens, these have shape {list(shape)}"
            )
        return Task(name, (shape[0] - 1,), dtype, VOCABULARY, _next_byte)
    raise UserError(
        f"the shard manifest names the unknown task `{name}`", "use classification or language_model"
    )


def _classification(
    features: npt.NDArray[np.generic], labels: npt.NDArray[np.int64] | None
) -> tuple[Tensor, Tensor]:
    if labels is None:
        raise UserError("the shards have no labels, but their manifest says classification")
    return torch.from_numpy(features).float(), torch.from_numpy(labels)


def _next_byte(features: npt.NDArray[np.generic], _: npt.NDArray[np.int64] | None) -> tuple[Tensor, Tensor]:
    tokens = torch.from_numpy(features).long()
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
