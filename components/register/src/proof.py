"""The proof that a registered model works: load it from the registry and predict with it."""

from __future__ import annotations

from typing import Any

import mlflow
import numpy as np

from wsmodels.model_input import make_model_input
from wsshards.errors import UserError, describe_error
from wsshards.manifest import read_manifest
from wsshards.reader import ShardReader

ROWS = 32


def predict_once(uri: str, shards: str) -> int:
    """Load the model at `uri` and predict; returns the number of rows predicted.

    The rows are those of a shards folder if one is given, held out if there are such, else the model's own
    input example, else zeros in the form of its signature.

    Raises:
        UserError: the model does not load or does not predict.
    """
    try:
        model = mlflow.pyfunc.load_model(uri)
        return len(model.predict(_rows(model, shards)))
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"the model does not predict: {describe_error(error, 140)}",
            "evaluate the model before you register it",
        ) from error


def _rows(model: Any, shards: str) -> Any:
    if shards:
        manifest = read_manifest(shards)
        held_out = (name for name in ("validation", "test") if manifest.split(name).rows)
        reader = ShardReader(shards, next(held_out, "train"))
        rows, labels = reader.gather(np.arange(min(ROWS, len(reader))))
        return make_model_input(model, rows[:, :-1] if labels is None else rows, manifest.features.columns)
    example, schema = model.input_example, model.metadata.get_input_schema()
    if example is not None:
        return example
    if schema is None:
        raise UserError(
            "the model has neither a signature nor an input example to be tried with",
            "bind `shards`, or save the model with an `input_example`",
        )
    if schema.is_tensor_spec():
        spec = schema.inputs[0]
        zeros = np.zeros([1 if size < 0 else size for size in spec.shape], spec.type)
        return {spec.name: zeros} if spec.name else zeros
    return _zero_row(schema)


def _zero_row(schema: Any) -> Any:
    """Return a DataFrame with one row in the form of a signature with columns."""
    import pandas as pd  # only models with named columns need it

    columns = {
        column.name or place: pd.Series([0]).astype(column.type.to_pandas())
        for place, column in enumerate(schema.inputs)
    }
    return pd.DataFrame(columns)
