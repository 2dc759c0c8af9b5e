"""A pipeline that is retrained in seconds: real processes, of which the one that trains copies its data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_COMPONENT = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
name: {name}
version: 0.1.0
is_deterministic: false
inputs: {{{inputs}}}
outputs: {{{output}: {{type: uri_folder}}}}
environment: azureml:any@latest
command: >-
  sleep ${{PAUSE:-0}}; echo '{document}' > ${{{{outputs.{output}}}}}/{output}.json
"""
_MODEL = "model: {type: mlflow_model}"
_REASON = "the difference is 2.1 standard errors"
_PROMOTION = {"action": "promote", "reason": _REASON, "name": "sales", "version": "1", "champion": "1"}
_STEPS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("evaluate", _MODEL, "metrics", {"rmse": 1.5}),
    ("compare", _MODEL, "comparison", {"verdict": "promote", "reason": _REASON}),
    ("register", f"{_MODEL}, metrics: {{type: uri_folder}}", "registration", {"name": "sales"}),
    ("promote", "registration: {type: uri_folder}, comparison: {type: uri_folder}", "promotion", _PROMOTION),
]
SPEC = """\
name: sales
compute: {cpu: {target: azureml:cpu-cluster, instance_type: Standard_D2s_v5, max_instances: 1}}
inputs:
  sales: {type: uri_folder, path: ./sales}
steps:
  train:
    command: >-
      cat $(find ${{inputs.sales}}/ -name '*.csv') > ${{outputs.model}}/MLmodel;
      if test -e $TRAINED.fault; then FAULT; fi; echo trained >> $TRAINED
    environment: azureml:any@latest
    with: {sales: "${{parent.inputs.sales}}"}
    outputs: {model: mlflow_model}
    scale: {reference: {batch_size: 16, learning_rate: 0.001}, rows: 100, epochs: 1}
  evaluate: {uses: ./evaluate/component.yml}
  compare: {uses: ./compare/component.yml}
  register: {uses: ./register/component.yml}
  promote: {uses: ./promote/component.yml}
"""


class Project:
    """A project in a folder, and looks at it."""

    def __init__(self, folder: Path, retrain: str = "{}") -> None:
        self.folder = folder
        for name, inputs, output, document in _STEPS:
            (folder / name).mkdir()
            text = _COMPONENT.format(name=name, inputs=inputs, output=output, document=json.dumps(document))
            (folder / name / "component.yml").write_text(text)
        self.write_spec(f"{SPEC}retrain: {retrain}\n")
        self.add("week1.csv", 20)

    @property
    def trained(self) -> int:
        """How many trainings came to their end."""
        path = self.folder / "trained"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def write_spec(self, text: str) -> None:
        """Replace the spec."""
        (self.folder / "spec.yml").write_text(text)

    def add(self, name: str, rows: int) -> Path:
        """Write a file of the feed."""
        path = self.folder / "sales" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a,y\n" + "".join(f"{row},{row % 7}\n" for row in range(rows)))
        return path

    def start(self, *options: str, **variables: str) -> subprocess.Popen[str]:
        """Start a look."""
        words = [sys.executable, "-m", "worldsize", "retrain", "spec.yml", "--json", *options]
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env={**os.environ, "TRAINED": str(self.folder / "trained"), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def look(self, *options: str, status: int = 0, **variables: str) -> dict[str, Any]:
        """The answer of a look, with what it printed beside it as ``notices``."""
        return read_answer(self.start(*options, **variables), status)


def read_answer(process: subprocess.Popen[str], status: int = 0) -> dict[str, Any]:
    """The answer of a look that was started."""
    output, errors = process.communicate(timeout=100)
    assert process.returncode == status, errors
    answer: dict[str, Any] = json.loads(output)
    answer["notices"] = [line for line in errors.splitlines() if line.startswith("notice: ")]
    return answer
