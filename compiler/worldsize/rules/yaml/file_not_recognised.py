"""A file that was named on the command line is neither a spec nor an Azure ML file.

A spec has ``steps:`` with one entry a step. Azure ML's files are known by ``$schema:`` or ``type:``.
In folders other YAML is passed over silently; a file that is named is expected to be checked, so it
is said that it was not. The exit status stays 0.

Why: A misspelt ``steps:`` would look like a clean spec.

Bad::

    stages:
      train: {uses: train_ddp}

Good::

    steps:
      train:
        command: python -c "print('hello')"

Fix: Correct the key that says what the file is, or leave the file out.

Source: Azure ML's YAML reference for ``$schema`` and ``type``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS009", "file-not-recognised", "info", since="0.1.0", summary="neither a spec nor an Azure ML file"
)
