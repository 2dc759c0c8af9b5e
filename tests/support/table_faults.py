"""What people do to tables and to the specs that read them."""

from __future__ import annotations

import zipfile
from pathlib import Path

from fault_projects import Edit, both, cell, cells, content, lines, move, remove, spec

D, B = "diabetes/diabetes.csv", "breast_cancer/breast_cancer.csv"


def add_column(path: str, name: str, *values: str) -> Edit:
    """Put a column before the others; the values take turns."""

    def change(table: list[list[str]]) -> None:
        for number, row in enumerate(table):
            row.insert(0, values[(number - 1) % len(values)] if number else name)

    return cells(path, change)


def zip_table(folder: Path) -> None:
    with zipfile.ZipFile(folder / "book.xlsx", "w") as archive:
        archive.write(folder / D)
    (folder / "book.xlsx").rename(folder / D)


DIABETES: dict[str, Edit] = {
    "the label is misspelt": spec("label: progression", "label: progresion"),
    "the label is left to its default": spec(" label: progression,", ""),
    "a column type of no column": spec("sex=category", "gender=category"),
    "a column type of no kind": spec("sex=category", "sex=text"),
    "the file is misspelt": spec("source: diabetes.csv", "source: diabets.csv"),
    "the folder is misspelt": spec("data: ./diabetes", "data: ./diabets"),
    "a file where a folder is asked for": spec("data: ./diabetes", "data: ./diabetes/diabetes.csv"),
    "the task is not said": spec("task: regression, ", ""),
    "the task is misspelt": spec("task: regression", "task: regresion"),
    "no header": lines(D, lambda texts: texts[1:]),
    "the same header twice": cell(D, 0, 2, "age"),
    "a column without a name": cell(D, 0, 2, ""),
    "semicolons": lines(D, lambda texts: [text.replace(",", ";") for text in texts]),
    "semicolons and decimal commas": lines(
        D, lambda texts: [text.replace(",", ";").replace(".", ",") for text in texts]
    ),
    "tabs": lines(D, lambda texts: [text.replace(",", "\t") for text in texts]),
    "a decimal comma": cell(D, 3, 2, '"30,5"'),
    "decimal commas in a column": cells(
        D, lambda table: [row.__setitem__(2, '"' + row[2].replace(".", ",") + '"') for row in table[1:]]
    ),
    "thousands separators": cell(D, 5, 10, '"1,035"'),
    "a unit": cell(D, 3, 2, "30.5 kg/m2"),
    "a percent sign": cell(D, 3, 2, "30.5%"),
    "an empty cell": cell(D, 7, 3, ""),
    "a blank cell": cell(D, 7, 3, " "),
    "no label": cell(D, 7, 10, ""),
    "a question mark": cell(D, 7, 3, "?"),
    "NaN": cell(D, 7, 3, "NaN"),
    "infinity": cell(D, 7, 3, "inf"),
    "an infinite label": cell(D, 7, 10, "inf"),
    "a label of text": cell(D, 7, 10, "high"),
    "a constant label": cells(D, lambda table: [row.__setitem__(10, "5") for row in table[1:]]),
    "a column without values": cells(D, lambda table: [row.__setitem__(3, "") for row in table[1:]]),
    "an empty file": content(D, lambda data: b""),
    "a header and no rows": lines(D, lambda texts: texts[:1]),
    "a single row": lines(D, lambda texts: texts[:2]),
    "fewer rows than a batch": lines(D, lambda texts: texts[:20]),
    "a row with a value too many": lines(D, lambda texts: [*texts[:9], texts[9] + ",1", *texts[10:]]),
    "a row with a value too few": lines(D, lambda texts: [*texts[:9], texts[9][3:], *texts[10:]]),
    "an open quote": lines(D, lambda texts: [*texts[:9], '"' + texts[9], *texts[10:]]),
    "UTF-16": content(D, lambda data: data.decode().encode("utf-16")),
    "Latin-1": both(
        add_column(D, "city", "Malmo", "Oslo"), content(D, lambda data: data.replace(b"Malmo", b"Malm\xf6"))
    ),
    "a workbook by the name of a CSV": zip_table,
    "dates of three forms": add_column(D, "visited", "2026-01-31", "31.01.2026", "01/31/2026"),
    "a name in each row": add_column(D, "name", *(f"patient {number}" for number in range(442))),
    "a time split without dates": spec(
        "column_types: sex=category}", 'column_types: sex=category}\n    split: {after: "2026-01-01"}'
    ),
    "groups of no column": spec(
        "column_types: sex=category}", "column_types: sex=category}\n    split: {by: patient}"
    ),
    "all rows held out": spec(
        "column_types: sex=category}", "column_types: sex=category}\n    split: {validation: 0.6, test: 0.5}"
    ),
    "given parts that are not there": spec(
        "column_types: sex=category}", "column_types: sex=category}\n    split: {given: true}"
    ),
    "features of no column": spec("label: progression", "features: 'age,bmi,weight', label: progression"),
    "the label among the features": spec(
        "label: progression", "features: 'age,progression', label: progression"
    ),
    "a gate of another task": spec("r2:", "accuracy:"),
    "a misspelt metric": spec("r2:", "r_2:"),
    "a best metric of another task": spec(
        "early_stopping_patience: 15", "early_stopping_patience: 15, best_metric: accuracy"
    ),
    "a model of pictures": spec("model: mlp", "model: cnn"),
    "a model of text": spec("model: mlp", "model: gpt"),
    "a model of no name": spec("model: mlp", "model: xgboost"),
    "an optimizer of no name": spec("adamw", "rmsprop"),
    "a batch larger than the data": spec("batch_size: 16", "batch_size: 512"),
    "no epochs": spec("epochs: 60", "epochs: 0"),
    "a negative rate": spec("learning_rate: 0.001", "learning_rate: -0.001"),
    "a rate with a comma": spec("learning_rate: 0.001", "learning_rate: '0,001'"),
    "missing values handled in a way that is none": spec(
        "task: regression", "task: regression, missing: mean"
    ),
}

CANCER: dict[str, Edit] = {
    "empty cells are not expected": spec(", missing: fill", ""),
    "the label is misspelt": spec("label: diagnosis", "label: Diagnosis"),
    "a label of numbers with fractions": both(
        spec("label: diagnosis", "label: mean_symmetry"), spec(', auroc: ">= 0.95"', "")
    ),
    "a label of numbers, said to be classes": spec(
        "label: diagnosis", "label: mean_radius, task: classification"
    ),
    "a label of classes, said to be numbers": both(
        spec("label: diagnosis", "label: diagnosis, task: regression"),
        spec(", best_metric: auroc", ""),
        spec('accuracy: ">= 0.9", auroc: ">= 0.95"', 'r2: ">= 0.9"'),
    ),
    "one class": lines(B, lambda texts: [text.replace("benign", "malignant") for text in texts]),
    "a class of one row": cell(B, 5, 21, "unclear"),
    "a class in two spellings": cell(B, 5, 21, "Malignant"),
    "a class with a blank": cell(B, 5, 21, "malignant "),
    "a number for the patient": spec("label: diagnosis", "label: mean_perimeter, task: classification"),
    "an identifier as the label": both(
        add_column(B, "patient", *(f"P{number}" for number in range(569))),
        spec("label: diagnosis", "label: patient"),
    ),
    "an identifier among the features": add_column(B, "patient", *(f"P{number}" for number in range(569))),
    "question marks for what is missing": lines(
        B, lambda texts: [text.replace(",,", ",?,") for text in texts]
    ),
    "a word for what is missing": lines(B, lambda texts: [text.replace(",,", ",unknown,") for text in texts]),
    "a unit in a cell": cell(B, 5, 0, "20.29 mm"),
    "a header of numbers": cells(
        B, lambda table: table[0].__setitem__(slice(None), [str(n) for n in range(22)])
    ),
    "a comma in a cell": cell(B, 5, 20, "large, or more"),
    "an open quote": cell(B, 5, 20, '"large'),
    "a column without values": cells(B, lambda table: [row.__setitem__(3, "") for row in table[1:]]),
    "notes below the table": lines(B, lambda texts: [*texts, "", "Source: the hospital"]),
    "a title above the table": lines(B, lambda texts: ["Tumours of 1995", "", *texts]),
    "two tables": both(
        content("breast_cancer/more.csv", lambda _: b"a,b\n1,2\n"), spec("source: breast_cancer.csv, ", "")
    ),
    "two formats": both(
        content("breast_cancer/more.jsonl", lambda _: b'{"a": 1}\n'), spec("source: breast_cancer.csv, ", "")
    ),
    "the table in a folder of its own": move(B, "breast_cancer/csv/breast_cancer.csv"),
    "no table": remove(B),
    "an empty folder": both(remove(B), spec(", source: breast_cancer.csv", "")),
    "compressed by the name of a CSV": content(B, lambda data: __import__("gzip").compress(data)),
    "Latin-1": both(
        cell(B, 5, 20, "mittelgross"), content(B, lambda data: data.replace(b"gross", b"gro\xdf"))
    ),
    "a gate of another task": spec('accuracy: ">= 0.9"', 'r2: ">= 0.9"'),
    "a misspelt metric": spec('auroc: ">=', 'auc: ">='),
    "a gate in percent": spec('accuracy: ">= 0.9"', 'accuracy: ">= 90"'),
    "a best metric of another task": both(
        spec("best_metric: auroc", "best_metric: rmse"),
        spec("label: diagnosis", "label: diagnosis, task: classification"),
    ),
    "a best metric misspelt": spec("best_metric: auroc", "best_metric: roc_auc"),
    "a model of pictures": spec("model: mlp", "model: cnn"),
    "a batch larger than the data": spec("batch_size: 16", "batch_size: 300"),
    "no validation to stop by": spec("missing: fill}", "missing: fill}\n    split: {validation: 0}"),
    "a number of epochs as text": spec("epochs: 30", "epochs: thirty"),
    "patience that is negative": spec("early_stopping_patience: 10", "early_stopping_patience: -1"),
}

GOOD: dict[str, tuple[str, Edit]] = {
    "as shipped": ("diabetes_ddp", lambda folder: None),
    "a byte order mark": ("diabetes_ddp", content(D, lambda data: b"\xef\xbb\xbf" + data)),
    "Windows line ends": ("diabetes_ddp", content(D, lambda data: data.replace(b"\n", b"\r\n"))),
    "no line end at the end": ("diabetes_ddp", content(D, lambda data: data.rstrip())),
    "blank lines at the end": ("diabetes_ddp", content(D, lambda data: data + b"\n\n")),
    "quotes around every cell": (
        "diabetes_ddp",
        cells(
            D, lambda table: [row.__setitem__(slice(None), [f'"{each}"' for each in row]) for row in table]
        ),
    ),
    "a row of commas": ("breast_cancer_ddp", lines(B, lambda texts: [*texts, "," * 21])),
    "a label in some rows only": ("breast_cancer_ddp", cell(B, 5, 21, "")),
    "hidden files": ("diabetes_ddp", content("diabetes/.DS_Store", lambda _: b"\0\0\0\1Bud1")),
    "a note beside the table": (
        "breast_cancer_ddp",
        both(
            content("breast_cancer/README.md", lambda _: b"# Tumours\n"),
            spec("source: breast_cancer.csv, ", ""),
        ),
    ),
    "Excel's lock file": ("diabetes_ddp", content("diabetes/~$diabetes.xlsx", lambda _: b"\6me")),
    "compressed": (
        "diabetes_ddp",
        both(
            content(D, lambda data: __import__("gzip").compress(data)),
            move(D, D + ".gz"),
            spec("source: diabetes.csv", "source: diabetes.csv.gz"),
        ),
    ),
    "a category that few rows have": ("breast_cancer_ddp", cell(B, 5, 20, "enormous")),
    "scientific numbers": ("diabetes_ddp", cell(D, 3, 2, "3.05e+01")),
}
