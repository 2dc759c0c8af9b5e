"""Converts rows of shards to the input of any MLflow model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wsmodels.raw_table import decode_table, has_plain_numbers, write_dates
from wsshards.errors import UserError, describe_error
from wsshards.manifest import Column

FIT = "use the shards that the model was trained on"
# Libraries whose models take a table, `[n, columns]`, when no signature says otherwise.
_TABLE_FLAVORS = frozenset(["catboost", "lightgbm", "sklearn", "xgboost"])


def make_model_input(model: Any, rows: npt.NDArray[Any], columns: Sequence[Column] = ()) -> Any:
    """Convert rows to the form that the model's signature has.

    Args:
        model: what `mlflow.pyfunc.load_model` returned.
        rows: features `[n, ...]`.
        columns: of a table, whose rows are coded.

    Returns:
        An array of the signature's shape and type, a mapping with one such array, or a DataFrame with the
        signature's columns: by name if the rows are a table with these columns, else by place. Without a
        signature, a DataFrame of a table that holds more than numbers, else the rows themselves or a flat
        table `[n, columns]`.

    Raises:
        UserError: the rows have another number of values or other columns than the signature.
    """
    schema = model.metadata.get_input_schema()
    if schema is None:
        if columns and not has_plain_numbers(columns):
            return decode_table(rows, columns)
        flat = _TABLE_FLAVORS & set(model.metadata.flavors)
        return rows.reshape(len(rows), -1) if flat else rows
    if schema.is_tensor_spec():
        return _tensor(schema, rows)
    wanted = [column.name for column in schema.inputs]
    names = {column.name for column in columns}
    if columns and all(
        name in names or not column.required for name, column in zip(wanted, schema.inputs, strict=True)
    ):
        return _named_table(schema, rows, columns)
    if columns and not has_plain_numbers(columns):
        missing = next(name for name in wanted if name not in names)
        raise UserError(f"the model takes a column `{missing}`, which is not one of the shards'", FIT)
    return _table(schema, rows)


def _tensor(schema: Any, rows: npt.NDArray[Any]) -> Any:
    if len(schema.inputs) > 1:
        raise UserError(f"the model takes {len(schema.inputs)} arrays, and shards hold one", FIT)
    spec = schema.inputs[0]
    wanted, shape = [int(size) for size in spec.shape[1:]], list(rows.shape[1:])
    if wanted.count(-1) > 1:
        shaped = rows  # lengths that vary, as a language model's: nothing to check before it is tried
    else:
        known = int(np.prod([size for size in wanted if size >= 0], dtype=np.int64))
        values = int(np.prod(shape, dtype=np.int64))
        if values % max(known, 1) or (-1 not in wanted and values != known):
            raise UserError(f"the model takes rows of shape {wanted}, and the shards have {shape}", FIT)
        shaped = rows.reshape(len(rows), *wanted)
    typed = shaped.astype(spec.type, copy=False)
    return {spec.name: typed} if spec.name else typed


def _table(schema: Any, rows: npt.NDArray[Any]) -> Any:
    import pandas as pd  # only models with named columns need it

    flat = rows.reshape(len(rows), -1)
    if len(schema.inputs) != flat.shape[1]:
        raise UserError(
            f"the model takes {len(schema.inputs)} columns, and a row of the shards has {flat.shape[1]}", FIT
        )
    types = {column.name or index: column.type.to_pandas() for index, column in enumerate(schema.inputs)}
    return pd.DataFrame(flat, columns=list(types)).astype(types)


def _named_table(schema: Any, rows: npt.NDArray[Any], columns: Sequence[Column]) -> Any:
    """Return the columns that the signature names, each of its type."""
    table = decode_table(rows, columns)
    table = table[[column.name for column in schema.inputs if column.name in table]]
    forms = {column.name: column.form for column in columns if column.form}
    for column in schema.inputs:
        if column.name in forms and column.name in table and column.type.name == "string":
            table[column.name] = write_dates(table[column.name], forms[column.name])
        if column.name not in table or table[column.name].isna().any():
            continue  # what is missing stays None, NaN or NaT
        try:
            table[column.name] = table[column.name].astype(column.type.to_pandas())
        except (TypeError, ValueError) as error:
            raise UserError(
                f"the model takes {column.type.name} in column `{column.name}`, and the shards have "
                f"something else: {describe_error(error, 100)}",
                FIT,
            ) from None
    return table
