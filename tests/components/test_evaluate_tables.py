"""Models that take the columns of a table by name, on shards of coded rows."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wsshards import manifest as m
from wsshards import terms

pytestmark = [
    pytest.mark.run,
    pytest.mark.smoke,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore"),
]

Run = Callable[..., Any]
write_shards = runpy.run_path(str(Path(__file__).with_name("shard_folders.py")))["write_shards"]


def _save(folder: Path, name: str, predict: Callable[..., Any], **options: Any) -> Path:
    import mlflow

    class Model(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            return predict(model_input)

    path = folder / name
    mlflow.pyfunc.save_model(str(path), python_model=Model(), pip_requirements=["numpy"], **options)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Shards of a table with one column of each kind, and its rows as they were before they were coded."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(0)
    rows = 120
    coded = np.stack(
        [
            random.normal(size=rows),
            random.integers(0, 2, rows),
            random.integers(0, 3, rows),
            random.integers(18_000, 19_000, rows),
            random.integers(0, 86_400, rows),
        ],
        axis=1,
    ).astype(np.float32)
    coded[:80, 2] %= 3
    coded[100, 0] = coded[101, 2] = np.nan
    coded[102, 2] = -1
    columns = (
        m.Column("size", mean=(0.0,), optional=True),
        m.Column("new", "boolean"),
        m.Column("town", "category", ("Bergen", "Oslo", "Voss"), optional=True),
        m.Column("sold", "date", mean=(0.0, 0.0)),
    )
    target = (np.nan_to_num(coded[:, :1]) + 2 * coded[:, 1:2]).astype(np.float64)
    splits = {
        "train": (coded[:80], target[:80]),
        "validation": (coded[80:95], target[80:95]),
        "test": (coded[95:], target[95:]),
    }
    features = m.Features("features", "float32", (5,), columns=columns)
    folder = tmp_path_factory.mktemp("table")
    write_shards(folder, terms.REGRESSION, splits, label=m.Label(("price",)), features=features)
    names = np.array([*columns[2].categories, "(unseen)"], object)
    towns = [None if np.isnan(code) else names[int(code)] for code in coded[:, 2]]
    dates = (coded[:, 3].astype(np.int64) * 86_400 + coded[:, 4].astype(np.int64)).astype("datetime64[s]")
    raw = pd.DataFrame(
        {"size": coded[:, 0].astype(float), "new": coded[:, 1] == 1, "town": towns, "sold": dates}
    )
    return folder, raw.assign(price=target[:, 0])


def test_regression_on_raw_columns(component: Run, table: tuple[Path, Any], tmp_path: Path) -> None:
    """A scikit-learn pipeline that knows nothing of us gets the columns by name, in its own order."""
    import mlflow
    from mlflow.models import infer_signature
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import r2_score, root_mean_squared_error
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    folder, raw = table
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town"]), (SimpleImputer(), ["size", "new"])
    )
    names = ["town", "new", "size", "sold"]
    model = make_pipeline(encode, LinearRegression()).fit(raw[names][:80], raw["price"][:80])
    signature = infer_signature(raw[names], model.predict(raw[names]))
    options = {"signature": signature, "pip_requirements": ["scikit-learn"], "serialization_format": "pickle"}
    mlflow.sklearn.save_model(model, str(tmp_path / "m"), **options)
    done = component("evaluate", model=tmp_path / "m", shards=folder, metrics=tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "evaluate on 25 rows of the test split" in done.stdout
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    predicted, wanted = model.predict(raw[names][95:]), raw["price"][95:]
    assert metrics["rmse"] == pytest.approx(root_mean_squared_error(wanted, predicted), rel=1e-9)
    assert metrics["r2"] == pytest.approx(r2_score(wanted, predicted), rel=1e-9)
    assert (tmp_path / "out" / "predictions.png").is_file()

    gate = "rmse < 5; r2 >= 0.5"
    ports = {"model": tmp_path / "m", "metrics": tmp_path / "out", "shards": folder, "gate": gate}
    done = component("register", model_name="prices", registration=tmp_path / "r", **ports)
    assert done.returncode == 0, done.stderr
    assert "it predicts 15 rows" in done.stdout


def test_dates_have_the_form_that_the_model_takes(component: Run, tmp_path: Path) -> None:
    """Text is written as it was in the table, and a model that takes dates gets dates."""
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    coded = np.array([[31, 0], [12, 0], [np.nan, np.nan]] * 2, np.float32)
    columns = (m.Column("day", "date", mean=(0.0, 0.0), optional=True, form="%d/%m/%Y"),)
    features = m.Features("features", "float32", (2,), columns=columns)
    target = np.arange(6.0)[:, None]
    splits = dict.fromkeys(("train", "validation"), (coded, target))
    write_shards(tmp_path / "s", terms.REGRESSION, splits, label=m.Label(("price",)), features=features)

    def predict(rows: Any) -> Any:
        days = rows["day"].tolist()
        assert days[:2] == ["01/02/1970", "13/01/1970"] or str(days[0]) == "1970-02-01 00:00:00"
        return np.arange(6.0) + rows["day"].notna().to_numpy()

    for kind in ("string", "datetime"):
        signature = ModelSignature(inputs=Schema([ColSpec(kind, "day", required=False)]))
        model = _save(tmp_path, kind, predict, signature=signature)
        done = component("evaluate", model=model, shards=tmp_path / "s", metrics=tmp_path / "out")
        assert done.returncode == 0, done.stderr
        assert json.loads((tmp_path / "out" / "metrics.json").read_text())["mse"] == pytest.approx(4 / 6)


def test_model_of_other_columns(component: Run, table: tuple[Path, Any], tmp_path: Path) -> None:
    from mlflow.models import infer_signature

    folder, raw = table
    signature = infer_signature(raw[["size", "new"]].rename(columns={"new": "old"}))
    model = _save(tmp_path, "m", lambda rows: rows["size"], signature=signature)
    done = component("evaluate", model=model, shards=folder, metrics=tmp_path / "out")
    assert done.returncode == 2
    assert "error: the model takes a column `old`, which is not one of the shards'" in done.stderr
    done = component("evaluate", model=model, shards=folder, metrics=tmp_path / "out", split="train")
    assert "column `old`" in done.stderr


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["label", "price", "cost"], ""),
        (["label", "cost", "rent"], "the model answers the columns `label`, `rent`, `cost` without `price`"),
    ],
)
def test_answers_with_names(
    component: Run, table: tuple[Path, Any], tmp_path: Path, names: list[str], message: str
) -> None:
    """Text beside the numbers is not one of them, and numbers are taken by their names."""
    text, right, wrong = names

    def predict(rows: Any) -> Any:
        import pandas as pd

        size = rows["size"].fillna(0)
        return pd.DataFrame({text: "dear", wrong: size * 0, right: size + 2 * rows["new"]})

    folder, _ = table
    model = _save(tmp_path, "m", predict)
    done = component("evaluate", model=model, shards=folder, metrics=tmp_path / "out")
    if message:
        assert done.returncode == 2
        assert f"error: {message}" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["r2"] == pytest.approx(1)


def test_a_perfect_order_is_doubted(component: Run, tmp_path: Path) -> None:
    """Weights of classes move the probabilities, so half of the right answers may lie below 0.5."""
    import numpy as np

    rows = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)
    labels = (rows[:, 0] > 1) * 1
    splits = {"train": (rows[:300], labels[:300]), "test": (rows[300:], labels[300:])}
    features = m.Features("features", "float32", (2,), columns=(m.Column("paid"), m.Column("age")))
    label = m.Label(("late",), ("no", "yes"))
    write_shards(tmp_path / "s", terms.CLASSIFICATION, splits, label=label, features=features)
    model = _save(tmp_path, "m", lambda values: 1 / (1 + np.exp(-np.asarray(values)[:, 0])))
    done = component("evaluate", model=model, shards=tmp_path / "s", metrics=tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (
        "warning: average_precision is 1: hardly any model is always right on data that is honest"
        in done.stderr
    )


@pytest.mark.parametrize("leaks", [True, False])
def test_a_perfect_score_is_doubted(component: Run, tmp_path: Path, leaks: bool) -> None:
    """Also where no single column is the reason."""
    import numpy as np

    random = np.random.default_rng(0)
    rows = random.normal(size=(600, 2)).astype(np.float32)
    labels = (rows[:, 0] > 0) if leaks else (rows[:, 0] > 0) ^ (rows[:, 1] > 0)
    splits = {"train": (rows[:300], labels[:300] * 1), "test": (rows[300:], labels[300:] * 1)}
    features = m.Features("features", "float32", (2,), columns=(m.Column("paid"), m.Column("age")))
    label = m.Label(("late",), ("no", "yes"))
    write_shards(tmp_path / "s", terms.CLASSIFICATION, splits, label=label, features=features)

    def predict(values: Any) -> Any:
        paid, age = np.asarray(values).T > 0
        return (paid if leaks else paid ^ age).astype(np.int64)

    model = _save(tmp_path, "m", predict)
    done = component("evaluate", model=model, shards=tmp_path / "s", metrics=tmp_path / "out")

    assert done.returncode == 0, done.stderr
    assert "warning: accuracy is 1: hardly any model is always right on data that is honest" in done.stderr
    assert ("column `paid` alone tells `late`" in done.stderr) == leaks
    assert ("look for values that are known only after the label" in done.stderr) != leaks
