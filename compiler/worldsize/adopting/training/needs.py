"""Packages that a call needs without an import of theirs: ``pandas.read_parquet`` reads with pyarrow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.scripts.module import Module, constant_value, keyword_argument

Need = tuple[str, ...]  # the packages of which one is enough, the usual one first

_TENSORBOARD = ("tensorboard", "tensorboardx")
_PARQUET = ("pyarrow", "fastparquet")
_BY_NAME: tuple[tuple[re.Pattern[str], Need], ...] = (
    (re.compile(r"torch\.utils\.tensorboard(?:\..+)?"), ("tensorboard",)),
    (re.compile(r"(?:pytorch_)?lightning\.[\w.]{0,60}TensorBoardLogger"), _TENSORBOARD),
    (re.compile(r"(?:pytorch_)?lightning\.[\w.]{0,60}WandbLogger"), ("wandb",)),
    (re.compile(r"(?:pytorch_)?lightning\.[\w.]{0,60}MLFlowLogger"), ("mlflow", "mlflow-skinny")),
    (re.compile(r"(?:pytorch_)?lightning\.[\w.]{0,60}CometLogger"), ("comet-ml",)),
    (re.compile(r"pandas\.read_parquet"), _PARQUET),
    (re.compile(r"pandas\.read_(?:feather|orc)"), ("pyarrow",)),
    (re.compile(r"pandas\.(?:read_hdf|HDFStore)"), ("tables",)),
    (re.compile(r"transformers\.[\w.]{0,60}BitsAndBytesConfig"), ("bitsandbytes",)),
    (re.compile(r"torchvision\.datasets\.Coco(?:Detection|Captions)"), ("pycocotools",)),
)
_OF_FRAMES: dict[str, Need] = {
    "to_parquet": _PARQUET,
    "to_feather": ("pyarrow",),
    "to_hdf": ("tables",),
    "to_excel": ("openpyxl", "xlsxwriter"),
    "to_markdown": ("tabulate",),
}
_OTHER_FRAMES = frozenset({"polars", "dask", "pyspark", "cudf", "modin", "datasets"})
_EXCEL: dict[str, Need] = {"xlsx": ("openpyxl",), "xlsm": ("openpyxl",), "xls": ("xlrd",), "ods": ("odfpy",)}
_TRACKERS: dict[str, Need] = {"tensorboard": _TENSORBOARD, "wandb": ("wandb",), "comet_ml": ("comet-ml",)}
_TRACKERS |= {"mlflow": ("mlflow", "mlflow-skinny")}


def list_needs(module: Module) -> set[Need]:
    """What the calls and the imports of a file need."""
    names = {name for name, level, _ in module.imports if not level}
    names |= {name for name, _ in module.calls}
    found = {need for pattern, need in _BY_NAME if any(map(pattern.fullmatch, names))}
    if any(name.partition(".")[0] == "mlflow" for name in names) or ("mlflow", "mlflow-skinny") in found:
        found.add(("azureml-mlflow",))  # MLflow's store of a job is the workspace
    return found | {need for name, call in module.calls for need in _list_of_call(module, name, call)}


def _list_of_call(module: Module, name: str, call: ast.Call) -> Iterator[Need]:
    last = name.rpartition(".")[2]
    tops = {each.partition(".")[0] for each in module.names.values()}
    if last in _OF_FRAMES and "pandas" in tops and tops.isdisjoint(_OTHER_FRAMES):
        yield _OF_FRAMES[last]
    elif name == "pandas.read_excel":
        texts = [constant_value(each) for each in ast.walk(call) if isinstance(each, ast.Constant)]
        ends = [each.rpartition(".")[2].lower() for each in texts if isinstance(each, str) and "." in each]
        yield next((_EXCEL[each] for each in ends if each in _EXCEL), _EXCEL["xlsx"])
    elif last.endswith(("TrainingArguments", "Accelerator")):
        given = keyword_argument(call, "report_to" if last.endswith("Arguments") else "log_with")
        for each in getattr(given, "elts", [given]):
            value = constant_value(each)
            if isinstance(value, str) and value in _TRACKERS:
                yield _TRACKERS[value]
