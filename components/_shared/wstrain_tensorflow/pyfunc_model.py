"""The model as MLflow serves it; this file travels with the model and imports none of our packages."""

from __future__ import annotations

import importlib.util
from typing import Any

import mlflow
import numpy as np
import tensorflow as tf
from mlflow.pyfunc.model import PythonModel

ROWS_AT_ONCE = 256  # bounds the memory of a prediction over a whole data set


class SavedProgram(PythonModel):
    """A SavedModel behind MLflow's interface: arrays, or a table's columns, in; arrays out."""

    def load_context(self, context: Any) -> None:
        """Load the program from the model's own folder."""
        self._loaded = tf.saved_model.load(context.artifacts["program"])
        self._answer = self._loaded.signatures["serving_default"]
        self._code_rows = _load_row_coder(context.artifacts)

    # MLflow reads this hint: it warns of a missing one, and takes any other for a schema beside the
    # signature.
    def predict(self, context: Any, model_input: np.ndarray, params: Any = None) -> Any:
        """Predict ``[n, …]`` in pieces; returns one array ``[n, …]`` of float32."""
        del context, params
        rows = np.asarray(self._code_rows(model_input) if self._code_rows else model_input)
        pieces = [rows[at : at + ROWS_AT_ONCE] for at in range(0, max(len(rows), 1), ROWS_AT_ONCE)]
        return np.concatenate([self._answer(tf.constant(piece))["answers"].numpy() for piece in pieces])


def _load_row_coder(artifacts: dict[str, str]) -> Any:
    """Return what codes the columns of this model's table, from its own folder; None for arrays."""
    if "table_rows" not in artifacts:
        return None
    spec = importlib.util.spec_from_file_location("table_rows", artifacts["table_rows"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)  # in no list of modules: another model has its own
    spec.loader.exec_module(module)
    return module.RowCoder(artifacts["columns"])


mlflow.models.set_model(SavedProgram())
