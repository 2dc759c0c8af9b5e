"""The model as MLflow serves it; this file travels with the model and imports none of our packages."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import mlflow
import numpy as np
import torch
from mlflow.pyfunc.model import PythonModel

ROWS_AT_ONCE = 256  # bounds the memory of a prediction over a whole data set


class ExportedProgram(PythonModel):
    """A ``torch.export`` program behind MLflow's interface: rows as stored, or what its users have, in."""

    def load_context(self, context: Any) -> None:
        """Load the program from the model's own folder."""
        with warnings.catch_warnings():
            # torch 2.10 reads weights over bytes that it does not write to.
            warnings.filterwarnings("ignore", message="The given buffer is not writable")
            self._program = torch.export.load(context.artifacts["program"]).module()
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
        rows = torch.from_numpy(np.array(given))  # a copy, as the given array may be read-only
        with torch.no_grad():
            pieces = [self._program(piece) for piece in torch.split(rows, ROWS_AT_ONCE)]
        return torch.cat(pieces).numpy()


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


mlflow.models.set_model(ExportedProgram())
