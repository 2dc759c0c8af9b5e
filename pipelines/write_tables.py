"""Writes the tables of the shipped pipelines from the data sets that scikit-learn carries.

python pipelines/write_tables.py

``diabetes/diabetes.csv`` has the measurements in their own units. ``breast_cancer/breast_cancer.csv`` is made
as tables often are: the class is a word, one column is a category, and one cell in thirty is empty.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from sklearn.datasets import load_breast_cancer, load_diabetes

HERE = Path(__file__).parent
BLOOD = ("total_cholesterol", "ldl", "hdl", "cholesterol_hdl_ratio", "log_triglycerides", "glucose")
SIZES = ((11.7, "small"), (15.8, "medium"))  # by the mean radius: the terciles, roughly
EMPTY = 1 / 30


def write_diabetes(path: Path) -> None:
    """Write 442 patients, ten measurements each, and the progression of the disease a year later."""
    data = load_diabetes(scaled=False)
    header = ["age", "sex", "bmi", "blood_pressure", *BLOOD, "progression"]
    rows = ([f"{value:.5g}" for value in (*row, y)] for row, y in zip(data.data, data.target, strict=True))
    _write(path, header, rows)


def write_breast_cancer(path: Path) -> None:
    """Write 569 tumours: means and worst values of ten measurements, a class of size, and the diagnosis."""
    data = load_breast_cancer()
    wanted = [place for place, name in enumerate(data.feature_names) if not name.endswith("error")]
    names = [data.feature_names[place].replace(" ", "_") for place in wanted]
    draw = random.Random(0)  # noqa: S311 - the same table every time
    rows = []
    for values, target in zip(data.data, data.target, strict=True):
        cells = [f"{values[place]:.4g}" for place in wanted]
        cells.append(next((size for limit, size in SIZES if values[0] < limit), "large"))
        cells = ["" if draw.random() < EMPTY else cell for cell in cells]
        rows.append([*cells, data.target_names[target]])
    _write(path, [*names, "size", "diagnosis"], rows)


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    write_diabetes(HERE / "diabetes" / "diabetes.csv")
    write_breast_cancer(HERE / "breast_cancer" / "breast_cancer.csv")
