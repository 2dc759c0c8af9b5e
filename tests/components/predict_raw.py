"""Load a registered model as anybody would, and predict from a table as its user has it.

python predict_raw.py TRACKING_URI MODEL TABLE LABEL
"""

from __future__ import annotations

import json
import sys

for package in ("wsshards", "wstrain", "wstrain_torch"):
    sys.modules[package] = None  # type: ignore[assignment]

import mlflow  # noqa: E402
import pandas as pd  # noqa: E402

uri, name, table, label = sys.argv[1:]
mlflow.set_tracking_uri(uri)
model = mlflow.pyfunc.load_model(f"models:/{name}/1")
rows = pd.read_csv(table)
wanted = {column.name: column.type.name for column in model.metadata.get_input_schema().inputs}
texts = {column: str for column, kind in wanted.items() if kind == "string"}
rows = pd.read_csv(table, dtype=texts).astype({name: float for name in wanted if name not in texts})
answers, truth = model.predict(rows.drop(columns=label)), rows[label]
assert list(answers.columns) == model.metadata.get_output_schema().input_names()
if "label" in answers:
    assert list(answers.columns) == ["label", *sorted(truth.unique())]
    assert (answers["label"] == answers.drop(columns="label").idxmax(axis=1)).all()
    print(json.dumps(float((answers["label"] == truth).mean())))
else:
    print(json.dumps(1 - float(((answers[label] - truth) ** 2).mean() / truth.var(ddof=0))))
