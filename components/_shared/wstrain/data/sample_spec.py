"""The specification of a sample and of its prediction, from a manifest, for every framework."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wsshards.errors import UserError
from wsshards.manifest import BYTES, Column, Manifest, Tokenizer
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL, MULTI_LABEL, REGRESSION, TASKS
from wstrain.data.table_encoding import TableEncoding, make_table_encoding

SAMPLE_BYTES = 128 << 20  # of rows from which the scale of inputs is taken


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """Inputs and outputs of a model.

    Attributes:
        name: the task, one of `wsshards.terms.TASKS`.
        input_shape: shape of one sample as the model gets it, without the batch dimension.
        input_dtype: NumPy name of the values as readers give them.
        outputs: classes, targets, or the vocabulary.
        tokenizer: of text; None for numbers.
        columns: of a table.
        encoding: what turns a stored row of a table into what the model gets; None if they are the same.
        target_mean: of each target of a regression over the training rows.
        target_deviation: standard deviation of each target of a regression over the training rows.
        names: of the classes, or of the targets.
        resize: how pictures were brought to their size; empty if a sample is not a picture.
        scale: what a pixel was multiplied by.
    """

    name: str
    input_shape: tuple[int, ...]
    input_dtype: str
    outputs: int
    tokenizer: Tokenizer | None = None
    columns: tuple[Column, ...] = ()
    encoding: TableEncoding | None = None
    target_mean: tuple[float, ...] = ()
    target_deviation: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    resize: str = ""
    scale: float = 1.0

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one sample as stored, and as the exported program takes it."""
        return (self.encoding.width,) if self.encoding else self.input_shape

    @property
    def reads_tokens(self) -> bool:
        """Whether a sample is a row of token numbers."""
        return self.tokenizer is not None

    def limit_rows(self, rows: int) -> int:
        """Return at most so many rows that they take no more than ``SAMPLE_BYTES`` as float32."""
        return min(rows, max(1, SAMPLE_BYTES // (4 * math.prod(self.input_shape))))

    @property
    def reads_raw(self) -> bool:
        """Whether an exported model takes pictures or texts as they are, and not only rows as stored."""
        return bool(self.resize) or self.tokenizer is not None

    def example_rows(self) -> np.ndarray[Any, Any]:
        """Return two rows of zeros, as stored."""
        return np.zeros((2, *self.row_shape), self.input_dtype)


def make_sample_spec(
    name: str,
    shape: tuple[int, ...],
    dtype: str,
    outputs: int,
    *,
    tokenizer: Tokenizer | None = None,
    columns: tuple[Column, ...] = (),
    target_mean: tuple[float, ...] = (),
    target_deviation: tuple[float, ...] = (),
) -> SampleSpec:
    """Return the specification of such samples.

    Args:
        name: the manifest's ``task``.
        shape: shape of one row's features.
        dtype: NumPy name of the features' type.
        outputs: number of classes or targets; a language model has those of its tokenizer.
        tokenizer: of text; a language model's default is bytes.
        columns: of a table.
        target_mean: of each target of a regression; the default is 0.
        target_deviation: of each target of a regression; the default is 1.

    Raises:
        UserError: the task is unknown, or nothing can be learned from such shards.
    """
    if name not in TASKS:
        raise UserError(
            f"the shard manifest names the unknown task `{name}`", f"use one of {', '.join(TASKS)}"
        )
    if name == LANGUAGE_MODEL:
        if len(shape) != 1 or shape[0] < 2:
            raise UserError(
                f"language-model shards need rows of at least 2 tokens, these have shape {list(shape)}"
            )
        tokens = tokenizer or BYTES
        return SampleSpec(name, (shape[0] - 1,), dtype, tokens.vocabulary, tokens)
    least = {CLASSIFICATION: 2, MULTI_LABEL: 1, REGRESSION: 1}[name]
    if outputs < least:
        noun = "target" if name == REGRESSION else "class"
        raise UserError(f"the shards hold {outputs} {noun}, and a {name} needs at least {least}")
    if name == REGRESSION:
        target_mean = target_mean or (0.0,) * outputs
        target_deviation = target_deviation or (1.0,) * outputs
    encoding = make_table_encoding(columns)
    return SampleSpec(
        name,
        (encoding.encoded,) if encoding else shape,
        dtype,
        outputs,
        tokenizer,
        columns,
        encoding,
        target_mean,
        target_deviation,
    )


def read_sample_spec(manifest: Manifest) -> SampleSpec:
    """Return the specification of a manifest's samples; raises UserError like :func:`make_sample_spec`."""
    features, label = manifest.features, manifest.label
    spec = make_sample_spec(
        manifest.task,
        features.shape,
        features.dtype,
        label.outputs if label else 0,
        tokenizer=features.tokenizer,
        columns=features.columns,
        target_mean=label.mean if label else (),
        target_deviation=label.deviation if label else (),
    )
    names = (label.classes or label.names) if label else ()
    return replace(spec, names=names, resize=features.resize, scale=features.scale)
