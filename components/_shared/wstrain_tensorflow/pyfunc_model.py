"""The model as MLflow serves it; this file travels with the model and imports none of our packages."""

from __future__ import annotations

from typing import Any

import mlflow
import numpy as np
import tensorflow as tf
from mlflow.pyfunc.model import PythonModel

ROWS_AT_ONCE = 256  # bounds the memory of a prediction over a whole data set


class SavedProgram(PythonModel):
    """A SavedModel behind MLflow's interface: arrays in, arrays out."""

    def load_context(self, context: Any) -> None:
        """Load the program from the model's own folder."""
        self._loaded = tf.saved_model.load(context.artifacts["program"])
        self._answer = self._loaded.signatures["serving_default"]

    # MLflow reads this hint: it warns of a missing one, and takes any other for a schema beside the
    # signature.
    def predict(self, context: Any, model_input: np.ndarray, params: Any = None) -> Any:
        """Predict ``[n, …]`` in pieces; returns one array ``[n, …]`` of float32."""
        del context, params
        rows = np.asarray(model_input)
        pieces = [rows[at : at + ROWS_AT_ONCE] for at in range(0, max(len(rows), 1), ROWS_AT_ONCE)]
        return np.concatenate([self._answer(tf.constant(piece))["answers"].numpy() for piece in pieces])


mlflow.models.set_model(SavedProgram())
