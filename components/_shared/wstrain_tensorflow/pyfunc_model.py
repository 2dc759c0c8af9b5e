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
    """A SavedModel behind MLflow's interface: rows as stored, or what its users have, in."""

    def load_context(self, context: Any) -> None:
        """Load the program from the model's own folder."""
        self._loaded = tf.saved_model.load(context.artifacts["program"])
        self._answer = self._loaded.signatures["serving_default"]
        self._coder = _load_coder(context.artifacts)

    # MLflow reads this hint: it warns of a missing one, and takes any other for a schema beside the
    # signature.
    def predict(self, context: Any, model_input: np.ndarray, params: Any = None) -> Any:
        """Predict arrays ``[n, …]``, tables, pictures or texts; returns an array ``[n, …]``, or a table."""
        del context
        if self._coder is None:
            return self._run(model_input)
        return self._coder.predict(model_input, self._run, params)

    def _run(self, given: Any) -> Any:
        """Predict rows as stored in pieces; returns one array ``[n, …]`` of float32."""
        rows = np.asarray(given)
        pieces = [rows[at : at + ROWS_AT_ONCE] for at in range(0, max(len(rows), 1), ROWS_AT_ONCE)]
        return np.concatenate([self._answer(tf.constant(piece))["answers"].numpy() for piece in pieces])


def _load_coder(artifacts: dict[str, str]) -> Any:
    """Return what reads the inputs of this model's users, from its own folder; None for arrays."""
    if "coder" not in artifacts:
        return None
    spec = importlib.util.spec_from_file_location("coder", artifacts["coder"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)  # in no list of modules: another model has its own
    spec.loader.exec_module(module)
    return module.make_coder(artifacts)


mlflow.models.set_model(SavedProgram())
