"""The model as MLflow serves it. This file is copied into the saved model and needs none of our code."""

from __future__ import annotations

from typing import Any

import mlflow
import numpy as np
import torch

ROWS_AT_ONCE = 256  # bounds the memory of a prediction over a whole data set


class ExportedProgram(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """A ``torch.export`` program behind MLflow's interface: arrays in, arrays out."""

    def load_context(self, context: Any) -> None:
        """Load the program from the model's own folder."""
        self._program = torch.export.load(context.artifacts["program"]).module()

    # MLflow would read type hints here as a schema of its own, beside the signature.
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        """Predict ``[n, …]`` in pieces; returns one array ``[n, …]`` of float32."""
        del context, params
        rows = torch.from_numpy(np.ascontiguousarray(model_input))
        with torch.no_grad():
            pieces = [self._program(piece) for piece in rows.split(ROWS_AT_ONCE)]
        return torch.cat(pieces).numpy()


mlflow.models.set_model(ExportedProgram())
