"""Calls any MLflow model on rows of shards, in the form that the model's signature requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import mlflow
import numpy as np
import numpy.typing as npt

from wsmetrics.cross_entropy import are_distributions, log_softmax
from wsmetrics.rank_scores import sigmoid
from wsmodels.mlmodel import read_mlmodel
from wsmodels.model_input import FIT, make_model_input
from wsshards.errors import UserError, describe_error
from wsshards.manifest import Manifest
from wsshards.reader import ShardReader
from wsshards.terms import CLASSIFICATION, MULTI_LABEL

Array = npt.NDArray[Any]
MAX_SCORES = 2**26  # in one answer: 256 MiB in fp32


class Predictor:
    """An MLflow model and the rows that it accepts.

    Args:
        path: folder of the model.
        manifest: of the shards.
        maps_classes: whether the model may have been trained with other classes. If its answers have their
            names, a class that it does not have gets the probability 0, and one that the shards do not have
            is left out.

    Attributes:
        threshold: the decision threshold of two classes that the model has in its metadata.

    Raises:
        UserError: the model cannot be loaded, or its signature does not fit the rows.
    """

    def __init__(self, path: str, manifest: Manifest, *, maps_classes: bool = False) -> None:
        self._manifest = manifest
        self._maps_classes = maps_classes and manifest.task in (CLASSIFICATION, MULTI_LABEL)
        label = manifest.label
        self._names = list(label.classes or label.names) if label else []
        try:
            self.threshold = find_threshold(read_mlmodel(path))  # before MLflow opens any kind of file
            self._model = mlflow.pyfunc.load_model(path)
        except Exception as error:
            raise UserError(
                f"cannot load the model: {describe_error(error, 140)}",
                "give an MLflow model, and install what its requirements.txt names",
            ) from error

    def predict(self, rows: Array) -> Array:
        """Predict `rows`; returns one array with the first dimension of `rows`.

        Raises:
            UserError: the model fails, or returns a different number of rows.
        """
        model_input = make_model_input(self._model, rows, self._manifest.features.columns)
        try:
            answer = self._model.predict(model_input)
            own = self._list_classes(answer) if self._maps_classes else []
            answer = self._map(_plain(answer, own), own) if own else _plain(self._choose(answer))
        except UserError:
            raise
        except Exception as error:
            shape = list(getattr(model_input, "shape", ()))
            raise UserError(
                f"the model fails on rows of shape {shape}: {describe_error(error, 140)}", FIT
            ) from error
        if answer.ndim == 0 or len(answer) != len(rows):
            raise UserError(
                f"the model answers {len(rows)} rows with an array of shape {list(answer.shape)}",
                "give one prediction for each row",
            )
        return answer

    def _list_classes(self, answer: Any) -> list[str]:
        """Return the names of the values that a row of an answer has, if some are classes of the shards."""
        if hasattr(answer, "columns"):
            numbers = answer.select_dtypes("number").columns
            names = [str(name) for name in numbers]
        else:
            schema = self._model.metadata.get_output_schema()
            specs = [] if schema is None or schema.is_tensor_spec() else schema.inputs
            names = [str(spec.name) for spec in specs if spec.type.name != "string"]
            names = names if np.shape(answer)[1:] == (len(names),) else []
        return names if len(names) > 1 and set(names) & set(self._names) else []

    def _map(self, answer: Array, own: Sequence[str]) -> Array:
        """Return answers with the model's own classes as answers with the classes of the shards."""
        shared = [name for name in self._names if name in own]
        places = [own.index(name) for name in shared]
        if set(own) == set(self._names):
            return answer[:, places]
        is_one = self._manifest.task == CLASSIFICATION
        if is_one and not are_distributions(answer):
            answer = np.exp(log_softmax(answer))
        elif not is_one and not ((answer >= 0) & (answer <= 1)).all():
            answer = sigmoid(answer)
        mapped = np.zeros((len(answer), len(self._names)))
        mapped[:, [self._names.index(name) for name in shared]] = answer[:, places]
        sums = mapped.sum(axis=1, keepdims=True)
        shares = np.where(sums > 0, mapped / np.where(sums > 0, sums, 1.0), 1 / len(self._names))
        return shares if is_one else mapped

    def _choose(self, answer: Any) -> Any:
        """Return the columns of the shards' classes or targets, in their order, of a table that has them."""
        columns = list(getattr(answer, "columns", ()))
        missing = [name for name in self._names if name not in columns]
        if columns and self._names and not missing:
            return answer[self._names]
        if missing and len(columns) > 1 and answer.to_numpy().dtype == object:  # text beside numbers
            shown = ", ".join(f"`{name}`" for name in columns[:8])
            more = ", …" if len(columns) > 8 else ""
            raise UserError(f"the model answers the columns {shown}{more} without `{missing[0]}`", FIT)
        return answer


def read_batches(
    reader: ShardReader, size: int, chosen: npt.NDArray[np.bool_] | None = None
) -> Iterator[tuple[Array, Array]]:
    """Yield the chosen rows in order: inputs `[n, *shape]`, and labels, or the next tokens `[n, tokens]`.

    A batch of a language model, whose answer is `[n, tokens, vocabulary]`, has as few rows as that needs.
    """
    row = reader.manifest.features
    if reader.manifest.label is None and row.tokenizer is not None:
        size = max(1, min(size, MAX_SCORES // (row.shape[0] * row.tokenizer.vocabulary)))
    rows = np.arange(len(reader)) if chosen is None else np.flatnonzero(chosen)
    for start in range(0, max(len(rows), 1), size):
        features, labels = reader.gather(rows[start : start + size])
        if labels is None:
            yield features[:, :-1], features[:, 1:].astype(np.int64)
        else:
            yield features, labels


def find_threshold(card: Mapping[str, Any]) -> float | None:
    """Return the decision threshold of two classes that a trainer has kept with its model, if it has."""
    value: Any = card
    for key in ("metadata", "worldsize", "decision_threshold"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, float) and 0 < value < 1 else None


def _plain(answer: Any, columns: Sequence[str] = ()) -> Array:
    """Convert the model's output (an array, a table, or a mapping with one entry) to a NumPy array.

    A list of `[n, 2]`, as scikit-learn's classifiers of several labels give it, becomes the probabilities
    `[n, labels]` of having each label.
    """
    if isinstance(answer, dict) and len(answer) == 1:
        answer = next(iter(answer.values()))
    if hasattr(answer, "detach"):
        answer = answer.detach().cpu()
    if columns and hasattr(answer, "columns"):
        answer = answer.set_axis([str(name) for name in answer.columns], axis=1)[list(columns)]
    if hasattr(answer, "to_numpy"):
        answer = answer.to_numpy()
    if isinstance(answer, list) and answer and all(np.shape(part)[1:] == (2,) for part in answer):
        answer = np.stack([np.asarray(part)[:, 1] for part in answer], axis=1)
    array = np.asarray(answer)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
