"""Saves a trained model in MLflow's format, for every framework: loading code, artefact, signature, metadata.

A short file of loading code travels with the model (MLflow's "models from code"), so this package is not
needed to load it.
"""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec

from wsshards import picture_decoding, token_rows
from wsshards.errors import UserError, describe_error
from wsshards.manifest import FEED_NAME
from wsshards.terms import BOOLEAN, CATEGORY, CLASSIFICATION, DATE, LANGUAGE_MODEL, NUMBER
from wsshards.whole_file import write_whole
from wstrain import raw_rows, table_rows
from wstrain.data.sample_spec import SampleSpec
from wstrain.raw_rows import NEW_TOKENS, name_label

MAX_COLUMNS = 1_000  # of a signature by name; wider tables are taken as arrays of coded rows
TABLE_CODE, PICTURE_CODE, TEXT_CODE, RAW_CODE = (
    Path(str(module.__file__)) for module in (table_rows, picture_decoding, token_rows, raw_rows)
)
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

    The model of a table takes a DataFrame with the table's columns; the code that turns it into numbers and
    names the answers travels with the model. So does what decodes pictures, and what makes tokens of texts.

    Args:
        write: writes the framework's own form of the model to a path.
        loading_code: the file with the class that MLflow calls.
        samples: inputs and outputs of the model.
        folder: the ``model`` output; files of an earlier attempt in it are replaced.
        artefact: file name of the framework's own form; its stem names it in the loading code.
        requirements: packages that loading needs, as pip has them; MLflow and NumPy are added.
        facts: plan and final metrics, kept as ``metadata: {worldsize: …}``.
        shards: the folder that has the tokenizer, and the statistics of the rows.

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
                pip_requirements=[
                    f"mlflow=={mlflow.__version__}",
                    *requirements,
                    *_require_decoders(samples),
                    f"numpy=={np.__version__}",
                ],
                metadata={"worldsize": {**facts, **_describe_tokenizer(beside)}},
            )
            if shards is not None and (shards / FEED_NAME).is_file():
                shutil.copyfile(shards / FEED_NAME, model / FEED_NAME)
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
    if samples.reads_raw or takes_columns(samples):
        decoding = PICTURE_CODE if samples.resize else TEXT_CODE if samples.reads_tokens else TABLE_CODE
        files |= {"facts": _write_json(scratch / "raw_rows.json", _describe_rows(samples))}
        files |= {"coder": RAW_CODE, "decoding": decoding}
    if shards is not None and samples.tokenizer is not None and samples.tokenizer.path:
        files["tokenizer"] = scratch / "tokenizer.json"
        shutil.copyfile(shards / samples.tokenizer.path, files["tokenizer"])
    return files


def _write_json(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def _describe_rows(samples: SampleSpec) -> dict[str, Any]:
    """Return what the loading code of tables, pictures and texts has to know."""
    return {
        "task": samples.name,
        "names": _answer_names(samples),
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "categories": list(column.categories),
                "optional": column.optional,
                "form": column.form,
            }
            for column in samples.columns
        ],
        "shape": list(samples.row_shape),
        "dtype": samples.input_dtype,
        "resize": samples.resize,
        "scale": samples.scale,
        "tokenizer": samples.tokenizer and asdict(samples.tokenizer),
    }


def _require_decoders(samples: SampleSpec) -> list[str]:
    """Return the packages that decode a user's input."""
    needed = [
        ("pillow", bool(samples.resize)),
        ("tokenizers", bool(samples.tokenizer and samples.tokenizer.path)),
    ]
    found = []
    for package, is_needed in needed:
        if is_needed:
            try:
                found.append(f"{package}=={metadata.version(package)}")
            except metadata.PackageNotFoundError:  # training reads tokens, and does without
                found.append(package)
    return found


def _describe_tokenizer(beside: Mapping[str, Path]) -> dict[str, str]:
    return {"tokenizer": f"artifacts/{beside['tokenizer'].name}"} if "tokenizer" in beside else {}


def _example(samples: SampleSpec) -> Any:
    if samples.reads_raw:
        return ["a text", "another text"] if samples.reads_tokens else [_blank_picture(samples)] * 2
    if not takes_columns(samples):
        return samples.example_rows()
    import pandas as pd  # only tables need it

    values = {
        column.name: [column.categories[0] if column.categories else _EXAMPLES[column.kind]] * 2
        for column in samples.columns
    }
    values |= {
        column.name: [dt.datetime(2000, 1, 1, tzinfo=dt.timezone.utc).strftime(column.form)] * 2
        for column in samples.columns
        if column.form
    }
    return pd.DataFrame(values)


def _blank_picture(samples: SampleSpec) -> str:
    """Return a black picture of the model's size, as a PNG in Base64."""
    from PIL import Image  # only pictures need it

    channels, height, width = samples.row_shape
    target = io.BytesIO()
    Image.new(picture_decoding.MODES[channels], (width, height)).save(target, "PNG")
    return base64.b64encode(target.getvalue()).decode()


def _answer_names(samples: SampleSpec) -> list[str]:
    return list(samples.names or map(str, range(samples.outputs)))


def _signature(samples: SampleSpec) -> ModelSignature:
    """Return what the model takes and answers; MLflow has no type for pictures and texts as they come."""
    if samples.name == LANGUAGE_MODEL:
        params = ParamSchema([ParamSpec("max_new_tokens", "long", NEW_TOKENS)])
        return ModelSignature(outputs=Schema([ColSpec("string", "text")]), params=params)
    if samples.reads_raw:
        return ModelSignature(outputs=_named_outputs(samples))
    if takes_columns(samples):
        columns: list[ColSpec | TensorSpec] = [
            # MLflow would read `01/02/2026` as it likes: dates in a form of their own stay text.
            ColSpec(
                "string" if column.form else _TYPES[column.kind], column.name, required=not column.optional
            )
            for column in samples.columns
        ]
        return ModelSignature(inputs=Schema(columns), outputs=_named_outputs(samples))
    return ModelSignature(
        inputs=Schema([TensorSpec(np.dtype(samples.input_dtype), (-1, *samples.row_shape))]),
        outputs=Schema([TensorSpec(np.dtype(np.float32), (-1, samples.outputs))]),
    )


def _named_outputs(samples: SampleSpec) -> Schema:
    """Return the columns of an answer: the likeliest class and the probability of each, or targets."""
    names = _answer_names(samples)
    columns: list[ColSpec | TensorSpec] = [ColSpec("float", name) for name in names]
    if samples.name == CLASSIFICATION:
        columns.insert(0, ColSpec("string", name_label(names)))
    return Schema(columns)


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
    write_whole(card, (model / "MLmodel").read_text(encoding="utf-8"))
