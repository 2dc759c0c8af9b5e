"""A trained model in MLflow's format, whatever the framework: loading code, artefact, signature, metadata.

A short file of loading code travels with the model (MLflow's "models from code"), so it loads where this
package is not installed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec

from wsshards.errors import UserError
from wstrain.data.sample_spec import SampleSpec


def save_mlflow_model(
    write: Callable[[Path], object],
    loading_code: Path,
    samples: SampleSpec,
    folder: Path,
    *,
    artefact: str,
    requirements: Sequence[str],
    facts: Mapping[str, Any],
) -> None:
    """Write the MLflow model into ``folder``.

    Args:
        write: writes the framework's own form of the model to a path.
        loading_code: the file of loading code.
        samples: what goes in and out.
        folder: the ``model`` output; may exist, and what a former attempt left in it is replaced.
        artefact: file name of the framework's own form; its stem names it in the loading code.
        requirements: packages that loading needs, as pip has them; MLflow and NumPy are added.
        facts: plan and final metrics, kept as ``metadata: {worldsize: …}``.

    Raises:
        UserError: the folder cannot be written.
    """
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    with tempfile.TemporaryDirectory() as scratch:
        own, made = Path(scratch) / artefact, Path(scratch) / "model"
        try:
            write(own)
            mlflow.pyfunc.save_model(
                path=str(made),
                python_model=str(loading_code),
                artifacts={own.stem: str(own)},
                signature=_signature(samples),
                input_example=samples.example_rows(),
                pip_requirements=[f"mlflow=={mlflow.__version__}", *requirements, f"numpy=={np.__version__}"],
                metadata={"worldsize": dict(facts)},
            )
            _move_in(made, folder)
        except (OSError, RuntimeError) as error:  # PyTorch's writer reports a full disk as a RuntimeError
            raise UserError(
                f"cannot write the model: {_reason(error)}", "free space for it and run again"
            ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]


def _signature(samples: SampleSpec) -> ModelSignature:
    inputs: tuple[int, ...] = (-1, *samples.input_shape)
    outputs: tuple[int, ...] = (-1, samples.outputs)
    if samples.name == "language_model":
        inputs, outputs = (-1, -1), (-1, -1, samples.outputs)
    return ModelSignature(
        inputs=Schema([TensorSpec(np.dtype(samples.input_dtype), inputs)]),
        outputs=Schema([TensorSpec(np.dtype(np.float32), outputs)]),
    )


def _move_in(made: Path, folder: Path) -> None:
    # The output may be a mount point, which nothing can be renamed onto. MLmodel comes last: without it a
    # folder is no model, so what a full disk interrupts cannot be taken for one.
    card = folder / "MLmodel"
    folder.mkdir(parents=True, exist_ok=True)
    card.unlink(missing_ok=True)
    for source in sorted(made.rglob("*")):
        target = folder / source.relative_to(made)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif source.name != "MLmodel":
            shutil.copyfile(source, target)
    temporary = folder / ".MLmodel"
    shutil.copyfile(made / "MLmodel", temporary)
    temporary.rename(card)
