"""An input names a local file or folder that does not exist.

Paths are relative to the spec. What lies in a datastore is written ``azureml:name:version`` or
``azureml://…``.

Why: the upload fails after the job was accepted, or an empty folder is mounted.

Bad::

    path: ./dta

Good::

    path: ./data

Fix: correct the path; the help names what lies near it.

Source: Microsoft Learn, Data concepts in Azure Machine Learning.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS501", "data-missing", "error", since="0.1.0", summary="a local path of data that does not exist"
)
