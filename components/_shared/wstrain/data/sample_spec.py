"""The specification of a sample and of its prediction, from a manifest's task, for every framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wsshards.errors import UserError

VOCABULARY = 256  # a byte-level model reads and predicts bytes


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """Inputs and outputs of a model.

    Attributes:
        name: ``classification`` or ``language_model``.
        input_shape: shape of one sample as the model gets it, without the batch dimension.
        input_dtype: NumPy name of the stored values.
        outputs: classes, or the vocabulary.
    """

    name: str
    input_shape: tuple[int, ...]
    input_dtype: str
    outputs: int

    def example_rows(self) -> np.ndarray[Any, Any]:
        """Return two rows of zeros, as stored."""
        return np.zeros((2, *self.input_shape), self.input_dtype)


def make_sample_spec(name: str, shape: tuple[int, ...], dtype: str, classes: int) -> SampleSpec:
    """Return the specification that a shard manifest describes.

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
        return SampleSpec(name, shape, dtype, classes)
    if name == "language_model":
        if len(shape) != 1 or shape[0] < 2:
            raise UserError(
                f"language-model shards need rows of at least 2 tokens, these have shape {list(shape)}"
            )
        return SampleSpec(name, (shape[0] - 1,), dtype, VOCABULARY)
    raise UserError(
        f"the shard manifest names the unknown task `{name}`", "use classification or language_model"
    )
