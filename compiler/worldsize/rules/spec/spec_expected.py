"""A file that is not a spec is given to a command that reads specs only.

``plan`` and ``compile`` derive numbers from a spec. A pipeline, job or component in Azure ML's own YAML has
them already, so there is nothing to derive.

Why: Read as a spec, every key of the file would be reported as unknown.

Bad::

    type: pipeline
    jobs: {}

Good::

    name: digits
    compute: {cpu: {target: azureml:cpu-cluster}}
    steps: {train: {command: python train.py, compute: cpu}}

Fix: Use ``worldsize check`` or ``worldsize run``, which take both; or write a spec.

Source: ``worldsize plan`` and ``worldsize compile``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS116", "spec-expected", "error", since="0.2.0", summary="an Azure ML file where a spec is expected"
)
