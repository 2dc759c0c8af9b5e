"""Load a saved model as anybody would, and give it pictures or texts as they are.

python predict_media.py MODEL INPUT…
"""

from __future__ import annotations

import json
import sys

for package in ("wsshards", "wstrain", "wstrain_torch", "wstrain_tensorflow", "transformers", "peft"):
    sys.modules[package] = None  # type: ignore[assignment]

import mlflow  # noqa: E402

model, *inputs = sys.argv[1:]
loaded = mlflow.pyfunc.load_model(model)
answers = loaded.predict(inputs)
example = loaded.predict(loaded.input_example)
assert list(example.columns) == list(answers.columns) == loaded.metadata.get_output_schema().input_names()
assert len(example) == 2
print(json.dumps({"columns": list(answers.columns), "rows": answers.to_numpy().tolist()}))
