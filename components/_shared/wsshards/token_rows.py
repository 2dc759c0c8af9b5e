"""Turns texts into tokens, and tokens into rows of one length: for sharding and for exported models alike.

This file travels with the exported model of texts and imports none of our packages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def encode_bytes(texts: Sequence[str]) -> list[Array]:
    """Return the bytes of each text."""
    return [np.frombuffer(text.encode(), np.uint8).astype(np.int64) for text in texts]


def prepare_tokenizer(tokenizer: Any) -> Any:
    """Let a tokenizer of the library neither pad, nor cut, nor read special tokens out of a text."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if hasattr(tokenizer, "encode_special_tokens"):
        tokenizer.encode_special_tokens = True  # a text that spells a special token out is a text
    return tokenizer


def encode_texts(tokenizer: Any, texts: Sequence[str]) -> list[Array]:
    """Return the tokens of each text, without those that the tokenizer puts around a whole text."""
    encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [np.asarray(each.ids, np.int64) for each in encoded]


def find_marks(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the tokens that the tokenizer puts before and after a text: those of its post-processor."""
    marked = tokenizer.encode("a", add_special_tokens=True).ids
    plain = tokenizer.encode("a", add_special_tokens=False).ids
    starts = [n for n in range(len(marked) - len(plain) + 1) if marked[n : n + len(plain)] == plain]
    if not starts:
        return (), ()
    start = starts[0] if plain else min(1, len(marked))  # without a token for the letter
    return tuple(marked[:start]), tuple(marked[start + len(plain) :])


def mark_rows(
    tokens: Sequence[Array], width: int, padding: int, marks: tuple[Sequence[int], Sequence[int]], dtype: Any
) -> Array:
    """Return a row `[n, width]` for each text: tokens cut to the room between the marks, then padding."""
    before, after = (np.array(each, dtype) for each in marks)
    room = width - len(before) - len(after)
    rows = np.full((len(tokens), width), padding, dtype)
    for row, one in zip(rows, tokens, strict=True):
        marked = np.concatenate([before, one[:room].astype(dtype), after])
        row[: len(marked)] = marked
    return rows
