"""Saves a trained model in MLflow's format, for every framework: loading code, artefact, signature, metadata.

A short file of loading code travels with the model (MLflow's "models from code"), so this package is not
needed to load it.
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

from wsshards.errors import UserError, describe_error
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
        loading_code: the file with the class that MLflow calls.
        samples: inputs and outputs of the model.
        folder: the ``model`` output; files of an earlier attempt in it are replaced.
        artefact: file name of the framework's own form; its stem names it in the loading code.
        requirements: packages that loading needs, as pip has them; MLflow and NumPy are added.
        facts: plan and final metrics, kept as ``metadata: {worldsize: …}``.

    Raises:
        UserError: the folder cannot be written.
    """
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    with tempfile.TemporaryDirectory() as scratch:
        program, model = Path(scratch) / artefact, Path(scratch) / "model"
        try:
            write(program)
            mlflow.pyfunc.save_model(
                path=str(model),
                python_model=str(loading_code),
                artifacts={program.stem: str(program)},
                signature=_signature(samples),
                input_example=samples.example_rows(),
                pip_requirements=[f"mlflow=={mlflow.__version__}", *requirements, f"numpy=={np.__version__}"],
                metadata={"worldsize": dict(facts)},
            )
            _copy_into(model, folder)
        except (OSError, RuntimeError) as error:  # PyTorch's writer reports a full disk as a RuntimeError
            raise UserError(
                f"cannot write the model: {describe_error(error)}", "free space for it and run again"
            ) from error


def _signature(samples: SampleSpec) -> ModelSignature:
    inputs: tuple[int, ...] = (-1, *samples.input_shape)
    outputs: tuple[int, ...] = (-1, samples.outputs)
    if samples.name == "language_model":
        inputs, outputs = (-1, -1), (-1, -1, samples.outputs)
    return ModelSignature(
        inputs=Schema([TensorSpec(np.dtype(samples.input_dtype), inputs)]),
        outputs=Schema([TensorSpec(np.dtype(np.float32), outputs)]),
    )


def _copy_into(model: Path, folder: Path) -> None:
    # The output may be a mount point, so a rename is not possible. MLmodel comes last: a folder without it is
    # not a model, so a copy that a full disk interrupts is not taken for one.
    card = folder / "MLmodel"
    folder.mkdir(parents=True, exist_ok=True)
    card.unlink(missing_ok=True)
    for source in sorted(model.rglob("*")):
        target = folder / source.relative_to(model)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif source.name != "MLmodel":
            shutil.copyfile(source, target)
    temporary = folder / ".MLmodel"
    shutil.copyfile(model / "MLmodel", temporary)
    temporary.rename(card)
