"""The format of a data file by its name, for the step that reads it and the planner that counts its rows."""

TABLES = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".npz": "npz",
}
PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
LABEL_FILE = "labels.csv"  # of pictures, beside them
TEXTS = (
    ".c",
    ".h",
    ".html",
    ".java",
    ".js",
    ".json",
    ".log",
    ".md",
    ".py",
    ".rst",
    ".rs",
    ".tex",
    ".txt",
    ".xml",
)
LABEL_ARRAYS = ("y", "label", "labels", "target", "targets")  # names that the labels of an `.npz` may have
MAX_CLASSES = 10_000
MAX_CLASS_NAME = 1_000  # characters
