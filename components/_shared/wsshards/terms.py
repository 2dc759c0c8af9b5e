"""The words of a manifest: parts of the data, tasks, kinds of columns, and how pictures are resized."""

from __future__ import annotations

SPLITS = ("train", "validation", "test")
CLASSIFICATION = "classification"
REGRESSION = "regression"
MULTI_LABEL = "multi_label"
LANGUAGE_MODEL = "language_model"
TASKS = (CLASSIFICATION, REGRESSION, MULTI_LABEL, LANGUAGE_MODEL)
# What a table's column holds, and so how it is encoded.
NUMBER, BOOLEAN, CATEGORY, DATE = "number", "boolean", "category", "date"
COLUMN_KINDS = (NUMBER, BOOLEAN, CATEGORY, DATE)
HASH, GIVEN, GROUP, TIME = "hash", "given", "group", "time"
DIVISIONS = (HASH, GIVEN, GROUP, TIME)  # what divides rows into the parts
RESIZES = ("", "crop", "stretch", "pad")  # of pictures; none of other rows
LABEL_COLUMN, GROUP_COLUMN, HASH_COLUMN = "label", "group", "hash"
LABEL_DTYPES = {CLASSIFICATION: "int64", REGRESSION: "float64", MULTI_LABEL: "uint8"}
