"""Saves a trained model in MLflow's format, for every framework: loading code, artefact, signature, metadata.

A short file of loading code travels with the model (MLflow's "models from code"), so this package is not
needed to load it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema, TensorSpec

from wsshards.errors import UserError, describe_error
from wsshards.manifest import BOOLEAN, CATEGORY, DATE, LANGUAGE_MODEL, NUMBER
from wstrain.data.sample_spec import SampleSpec

MAX_COLUMNS = 1_000  # of a signature by name; wider tables are taken as arrays of coded rows
ROW_CODE = Path(__file__).with_name("table_rows.py")
_TYPES = {NUMBER: "double", BOOLEAN: "boolean", CATEGORY: "string", DATE: "datetime"}
_EXAMPLES = {NUMBER: 0.0, BOOLEAN: False, CATEGORY: "", DATE: np.datetime64("2000-01-01", "ns")}


def save_mlflow_model(
    write: Callable[[Path], object],
    loading_code: Path,
    samples: SampleSpec,
    folder: Path,
    *,
    artefact: str,
    requirements: Sequence[str],
    facts: Mapping[str, Any],
    shards: Path | None = None,
) -> None:
    """Write the MLflow model into ``folder``.

    The model of a table takes a DataFrame with the table's columns; the code that turns it into numbers, and
    the columns, travel with the model. So does the tokenizer of texts.

    Args:
        write: writes the framework's own form of the model to a path.
        loading_code: the file with the class that MLflow calls.
        samples: inputs and outputs of the model.
        folder: the ``model`` output; files of an earlier attempt in it are replaced.
        artefact: file name of the framework's own form; its stem names it in the loading code.
        requirements: packages that loading needs, as pip has them; MLflow and NumPy are added.
        facts: plan and final metrics, kept as ``metadata: {worldsize: …}``.
        shards: the folder that has the tokenizer.

    Raises:
        UserError: the folder cannot be written.
    """
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    with tempfile.TemporaryDirectory() as scratch:
        program, model = Path(scratch) / artefact, Path(scratch) / "model"
        try:
            write(program)
            beside = _write_beside(samples, Path(scratch), shards)
            mlflow.pyfunc.save_model(
                path=str(model),
                python_model=str(loading_code),
                artifacts={program.stem: str(program)} | {name: str(path) for name, path in beside.items()},
                signature=_signature(samples),
                input_example=_example(samples),
                pip_requirements=[f"mlflow=={mlflow.__version__}", *requirements, f"numpy=={np.__version__}"],
                metadata={"worldsize": {**facts, **_describe_tokenizer(beside)}},
            )
            _copy_into(model, folder)
        except (OSError, RuntimeError) as error:  # PyTorch's writer reports a full disk as a RuntimeError
            raise UserError(
                f"cannot write the model: {describe_error(error)}", "free space for it and run again"
            ) from error


def takes_columns(samples: SampleSpec) -> bool:
    """Whether the model takes a DataFrame with the columns of a table."""
    return 0 < len(samples.columns) <= MAX_COLUMNS


def _write_beside(samples: SampleSpec, scratch: Path, shards: Path | None) -> dict[str, Path]:
    """Write what travels with the program, and return it by the name that the loading code has for it."""
    files: dict[str, Path] = {}
    if takes_columns(samples):
        columns = [
            {
                "name": column.name,
                "kind": column.kind,
                "categories": list(column.categories),
                "optional": column.optional,
            }
            for column in samples.columns
        ]
        files |= {"columns": scratch / "columns.json", "table_rows": scratch / ROW_CODE.name}
        files["columns"].write_text(json.dumps(columns, ensure_ascii=False, indent=1), encoding="utf-8")
        shutil.copyfile(ROW_CODE, files["table_rows"])
    if shards is not None and samples.tokenizer is not None and samples.tokenizer.path:
        files["tokenizer"] = scratch / "tokenizer.json"
        shutil.copyfile(shards / samples.tokenizer.path, files["tokenizer"])
    return files


def _describe_tokenizer(beside: Mapping[str, Path]) -> dict[str, str]:
    return {"tokenizer": f"artifacts/{beside['tokenizer'].name}"} if "tokenizer" in beside else {}


def _example(samples: SampleSpec) -> Any:
    if not takes_columns(samples):
        return samples.example_rows()
    import pandas as pd  # only tables need it

    values = {
        column.name: [column.categories[0] if column.categories else _EXAMPLES[column.kind]] * 2
        for column in samples.columns
    }
    return pd.DataFrame(values)


def _signature(samples: SampleSpec) -> ModelSignature:
    inputs: tuple[int, ...] = (-1, *samples.row_shape)
    outputs: tuple[int, ...] = (-1, samples.outputs)
    if samples.name == LANGUAGE_MODEL:
        inputs, outputs = (-1, -1), (-1, -1, samples.outputs)
    if takes_columns(samples):
        columns: list[ColSpec | TensorSpec] = [
            ColSpec(_TYPES[column.kind], column.name, required=not column.optional)
            for column in samples.columns
        ]
        return ModelSignature(
            inputs=Schema(columns), outputs=Schema([TensorSpec(np.dtype(np.float32), outputs)])
        )
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
