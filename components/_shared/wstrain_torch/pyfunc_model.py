"""The model as MLflow serves it; this file travels with the model and imports none of our packages."""

from __future__ import annotations

import warnings
from typing import Any

import mlflow
import numpy as np
import torch
from mlflow.pyfunc.model import PythonModel

ROWS_AT_ONCE = 256  # bounds the memory of a prediction over a whole data set


class ExportedProgram(PythonModel):
    """A ``torch.export`` program behind MLflow's interface: arrays in, arrays out."""

    def load_context(self, context: Any) -> None:
        """Load the program from the model's own folder."""
        with warnings.catch_warnings():
            # torch 2.10 reads weights over bytes that it does not write to.
            warnings.filterwarnings("ignore", message="The given buffer is not writable")
            self._program = torch.export.load(context.artifacts["program"]).module()

    # MLflow reads this hint: it warns of a missing one, and takes any other for a schema beside the
    # signature.
    def predict(self, context: Any, model_input: np.ndarray, params: Any = None) -> Any:
        """Predict ``[n, …]`` in pieces; returns one array ``[n, …]`` of float32."""
        del context, params
        rows = torch.from_numpy(np.array(model_input))  # a copy, as the given array may be read-only
        with torch.no_grad():
            pieces = [self._program(piece) for piece in torch.split(rows, ROWS_AT_ONCE)]
        return torch.cat(pieces).numpy()


mlflow.models.set_model(ExportedProgram())
