"""Load a registered model as anybody would, and predict from a table as its user has it.

python predict_raw.py TRACKING_URI MODEL TABLE LABEL
"""

from __future__ import annotations

import json
import sys

for package in ("wsshards", "wstrain", "wstrain_torch"):
    sys.modules[package] = None  # type: ignore[assignment]

import mlflow  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

uri, name, table, label = sys.argv[1:]
mlflow.set_tracking_uri(uri)
model = mlflow.pyfunc.load_model(f"models:/{name}/1")
rows = pd.read_csv(table)
wanted = {column.name: column.type.name for column in model.metadata.get_input_schema().inputs}
texts = {column: str for column, kind in wanted.items() if kind == "string"}
rows = pd.read_csv(table, dtype=texts).astype({name: float for name in wanted if name not in texts})
answers, truth = model.predict(rows.drop(columns=label)), rows[label].to_numpy()
if answers.shape[1] == 1:
    print(json.dumps(1 - float(((answers[:, 0] - truth) ** 2).mean() / truth.var())))
else:
    print(json.dumps(float((np.unique(truth)[answers.argmax(1)] == truth).mean())))
