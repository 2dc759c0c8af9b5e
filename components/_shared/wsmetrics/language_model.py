"""Metrics of predicted tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from wsmetrics.cross_entropy import are_distributions, blocks, log_probabilities, log_softmax
from wsmetrics.exact_sum import ExactSum

_LARGEST = 700.0  # nats: the exponential of more is not a double


class LanguageModelMetrics:
    """`loss`, `perplexity`, `bits_per_byte` and `accuracy` of the next token.

    The loss is the mean negative log-likelihood of a token in nats, the perplexity its exponential, and the
    bits per byte the loss / ln 2 of tokens that are bytes. Tokens that only fill a row up do not count.

    Args:
        vocabulary: number of distinct tokens.
        padding: the token that fills rows up, or None.
        byte_tokens: whether a token is a byte.
        logits: as for classes.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        padding: int | None = None,
        byte_tokens: bool = False,
        logits: bool | None = None,
    ) -> None:
        self._vocabulary, self._padding, self._byte_tokens = vocabulary, padding, byte_tokens
        self._losses = {form: ExactSum() for form in (False, True) if logits in (None, form)}
        self._rows = self._tokens = self._right = 0

    def add(self, outputs: Any, targets: Any) -> None:
        """Add probabilities or logits `[n, tokens, vocabulary]` and the next tokens `[n, tokens]`."""
        outputs, targets = np.asarray(outputs), np.asarray(targets)
        self._rows += len(targets)
        flat, wanted = outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1).astype(np.int64)
        for block in blocks(flat):
            values, tokens = flat[block], wanted[block]
            if self._padding is not None:
                counted = tokens != self._padding
                values, tokens = values[counted], tokens[counted]
            if not len(tokens):
                continue
            if len(self._losses) > 1 and not are_distributions(values):
                del self._losses[False]
            for form, loss in self._losses.items():
                logs = log_softmax(values) if form else log_probabilities(values)
                loss.add(-logs[np.arange(len(tokens)), tokens])
            self._tokens += len(tokens)
            self._right += int((values.argmax(axis=1) == tokens).sum())

    def add_losses(self, losses: Any, right: Any, *, rows: int) -> None:
        """Add the loss in nats of each token that counts, and whether it was the most likely, both `[n]`.

        For outputs that are better left where they were computed: `[n, tokens, vocabulary]` is large.
        """
        losses = np.asarray(losses)
        self._losses.pop(False, None)
        self._losses[True].add(losses)
        self._rows += rows
        self._tokens += losses.size
        self._right += int(np.asarray(right).sum())

    def state(self) -> Any:
        """Return what another object's `merge` takes."""
        return self._rows, self._tokens, self._right, self._losses

    def merge(self, states: Iterable[Any]) -> None:
        """Add the rows of other objects; in which order does not matter."""
        for rows, tokens, right, losses in states:
            self._rows += rows
            self._tokens += tokens
            self._right += right
            self._losses = {form: own for form, own in self._losses.items() if form in losses}
            for form, own in self._losses.items():
                own.merge(losses[form])

    def compute(self) -> dict[str, float]:
        """Return the metrics; only `rows` if there are no tokens."""
        if not self._tokens:
            return {"rows": float(self._rows)}
        loss = next(iter(self._losses.values())).divided(self._tokens)
        metrics = {"loss": loss, "perplexity": math.exp(min(loss, _LARGEST))}
        if self._byte_tokens:
            metrics["bits_per_byte"] = loss / math.log(2)
        return metrics | {"accuracy": self._right / self._tokens, "rows": float(self._rows)}
