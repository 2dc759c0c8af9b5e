"""The structure of Azure ML's YAML: keys, types, words and forms, checked without any Azure package.

``recognise`` finds the kind of a file, ``check_shape`` the faults of its structure. Both are driven by the
JSON Schemas under ``schemas/azureml``, which are made from azure-ai-ml's own schema classes.
"""

from __future__ import annotations

from worldsize.azureml.shape.recognise import CHECKED, check_schema_name, recognise
from worldsize.azureml.shape.walk import check_member, check_shape

__all__ = ["CHECKED", "check_member", "check_schema_name", "check_shape", "recognise"]
