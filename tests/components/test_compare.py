"""The component that compares a new model with the champion, on real models in MLflow's own registry."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wsshards import manifest as m
from wsshards import terms
from wsshards.provenance import describe_data

pytestmark = [
    pytest.mark.run,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore"),
]

smoke = pytest.mark.smoke
Run = Callable[..., Any]
NAME = "credit-mlp"
write_shards = runpy.run_path(str(Path(__file__).with_name("shard_folders.py")))["write_shards"]


def _rows(count: int, seed: int) -> tuple[Any, Any]:
    """Two numbers a row, of which the first tells more of the class than the second."""
    import numpy as np

    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, count)
    signal = (2 * labels - 1)[:, None] * [0.8, 0.5] + draw.normal(size=(count, 2))
    return signal.astype(np.float32), labels


def _divide(folder: Path, manifest: m.Manifest, division: m.Division) -> m.Manifest:
    divided = replace(manifest, division=division)
    (folder / m.MANIFEST_NAME).write_text(m.manifest_to_json(divided), encoding="utf-8")
    return divided


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, m.Manifest]:
    """Rows of two classes, the newest of which test."""
    folder = tmp_path_factory.mktemp("credit")
    splits = {"train": _rows(200, 0), "validation": _rows(60, 1), "test": _rows(1500, 2)}
    manifest = write_shards(folder, terms.CLASSIFICATION, splits, label=m.Label(("paid",), ("no", "yes")))
    return folder, _divide(folder, manifest, m.Division("time", "day", "date", 1_700_000_000.0))


def _save(path: Path, predict: Callable[[Any], Any], data: Any = None) -> Path:
    import mlflow

    class Model(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            return predict(model_input)

    metadata = {"worldsize": {"source": "credit.csv", "model": "mlp", **({"data": data} if data else {})}}
    options: dict[str, Any] = {"pip_requirements": ["numpy"], "metadata": metadata}
    mlflow.pyfunc.save_model(str(path), python_model=Model(), **options)
    return path


def _weigh(first: float, second: float) -> Callable[[Any], Any]:
    def predict(rows):  # type: ignore[no-untyped-def]
        import numpy as np

        logits = rows[:, 0] * first + rows[:, 1] * second
        return np.stack([-logits, logits], axis=1) / 2

    return predict


@pytest.fixture
def enthrone(tmp_path: Path, new_database: Callable[[Path], None]) -> Callable[..., None]:
    """Register a model as the champion: `enthrone(model)`."""

    def register(model: Path) -> None:
        import mlflow

        new_database(tmp_path / "mlflow.db")
        client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
        client.create_registered_model(NAME)
        tags = {"champion": "true", "champion_term": "1", "champion_job": "a"}
        client.create_model_version(NAME, str(model), tags=tags)

    return register


@pytest.fixture
def ports(component: Run, tmp_path: Path) -> tuple[Run, Path]:
    return component, tmp_path


@pytest.fixture
def compare(component: Run, tmp_path: Path, shards: Any) -> Callable[..., Any]:
    """Run the component's own command line, and return what it wrote: `compare(model)`."""

    def run(model: Path, folder: Path | None = None, **inputs: Any) -> Any:
        out = tmp_path / "comparison"
        done = component("compare", model=model, shards=folder or shards[0], comparison=out, **inputs)
        assert done.returncode == 0, done.stderr
        return json.loads((out / "comparison.json").read_text()) | {"stdout": done.stdout}

    return run


@smoke
def test_a_better_model_is_promoted_with_its_evidence(
    compare: Any, enthrone: Any, shards: Any, tmp_path: Path
) -> None:
    import mlflow
    import numpy as np

    from wsshards.reader import ShardReader

    older = {**describe_data(shards[1]), "digest": "0", "trained_before": "2023-11-07"}
    older.pop("test_digest")
    old, new = _weigh(0.0, 1.0), _weigh(1.6, 1.0)
    enthrone(_save(tmp_path / "old", old, older))
    model = _save(tmp_path / "new", new, describe_data(shards[1]))
    told = compare(model, guards="recall_yes: not_worse 0.02; size: not_worse 1e6")
    assert told["stdout"].splitlines()[-1] == f"promote: {told['reason']}"
    assert told["verdict"] == "promote"
    assert (told["metric"], told["goal"], told["rule"]) == ("accuracy", "maximize", "better")
    rows, labels = ShardReader(shards[0], "test").gather(np.arange(1500))
    right = [predict(rows).argmax(1) == labels for predict in (old, new)]
    assert told["champion"] == {
        "name": NAME, "version": "1", "metric": right[0].mean(), "trained_until": "2023-11-07",
    }  # fmt: skip
    assert told["challenger"]["metric"] == right[1].mean()
    assert told["challenger"]["trained_until"] == "2023-11-14T22:13:20+00:00"
    assert len(told["challenger"]["model"]) == 64
    paired = right[1].astype(float) - right[0]
    difference = told["difference"]
    assert difference["value"] == pytest.approx(paired.mean(), abs=1e-12)
    assert difference["standard_error"] == pytest.approx(paired.std(ddof=1) / 1500**0.5, rel=1e-9)
    assert difference["discordant"] == int((paired != 0).sum())
    assert (difference["rows"], difference["units"]) == (1500, 1500)
    assert told["rows"] == {"split": "test", "compared": 1500, "left_out": 0, "reason": None}
    assert [(guard["metric"], guard["holds"]) for guard in told["guards"]] == [
        ("recall_yes", True), ("size", True),
    ]  # fmt: skip
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = client.search_runs(["0"])
    assert run.data.metrics == {
        "difference": difference["value"], "standard_error": difference["standard_error"],
    }  # fmt: skip
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["comparison.png"]


@smoke
def test_without_a_champion_the_first_model_is_promoted(compare: Any, tmp_path: Path) -> None:
    told = compare(_save(tmp_path / "new", _weigh(1.0, 0.0)))
    assert (told["verdict"], told["reason"]) == ("promote", f"`{NAME}` has no champion yet")
    assert (told["champion"], told["difference"]) == (None, None)
    assert told["challenger"]["metric"] > 0.7
    assert told["rows"]["compared"] == 0


def test_rows_of_grown_data_that_a_hash_divides_are_compared(
    compare: Any, component: Run, enthrone: Any, tmp_path: Path
) -> None:
    held_out = {"test_fraction": 0.4, "label": "paid"}
    data = {}
    for name, count in (("old", 600), ("new", 1000)):
        rows, labels = _rows(1000, 3)
        lines = [f"{a},{b},{'yes' if y else 'no'}" for (a, b), y in zip(rows[:count], labels, strict=False)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,paid", *lines]) + "\n")
        out = tmp_path / f"shards-{name}"
        done = component("shard_data", data=tmp_path / f"{name}.csv", shards=out, **held_out)
        assert done.returncode == 0, done.stderr
        data[name] = describe_data(m.read_manifest(out))
    enthrone(_save(tmp_path / "old", _weigh(0.0, 1.0), data["old"]))
    model = _save(tmp_path / "new", _weigh(1.6, 1.0), data["new"])
    comparison = compare(model, tmp_path / "shards-new", model_name=NAME)
    assert comparison["verdict"] == "promote", comparison["reason"]
    rows = comparison["rows"]
    assert rows["compared"] + rows["left_out"] == 400
    assert 300 < rows["compared"] <= 400
    few = compare(model, tmp_path / "shards-new", model_name=NAME, minimum_rows=rows["compared"] + 1)
    assert few["verdict"] == "keep"
    assert few["reason"].startswith(f"{rows['compared']} of 400 rows of the `test` split are new") == (
        rows["compared"] < 400
    )


@pytest.mark.parametrize("rule", ["better", "not_worse 0.01", "significant 0.95", "standard_errors 0"])
def test_the_same_model_again_is_a_tie(
    compare: Any, enthrone: Any, shards: Any, tmp_path: Path, rule: str
) -> None:
    model = _save(tmp_path / "same", _weigh(1.0, 0.5), describe_data(shards[1]))
    enthrone(model)
    told = compare(model, rule=rule, metric="auroc")
    assert told["verdict"] == "keep"
    assert told["reason"] == "both models have the same auroc on 1,500 rows: the champion stays"
    assert (told["difference"]["value"], told["difference"]["standard_error"]) == (0, 0)


def test_rows_that_may_have_trained_the_champion_are_not_compared(
    compare: Any, enthrone: Any, shards: Any, tmp_path: Path
) -> None:
    newer = {**describe_data(shards[1]), "digest": "0", "test_digest": "0", "trained_before": "2023-12-01"}
    enthrone(_save(tmp_path / "old", _weigh(0.0, 1.0), newer))
    model = _save(tmp_path / "new", _weigh(1.6, 1.0))
    told = compare(model)
    assert (told["verdict"], told["difference"]) == ("keep", None)
    assert told["reason"] == (
        "it is not known that the rows are new to the champion: it was trained on rows up to 2023-12-01, and"
        " these begin at 2023-11-14T22:13:20+00:00"
    )
    assert told["rows"] == {"split": "test", "compared": 0, "left_out": 1500, "reason": told["reason"]}
    told = compare(model, rule="newest")
    assert told["verdict"] == "promote"
    assert told["reason"].startswith("the rule is `newest`; not compared, as it is not known")
    told = compare(model, minimum_rows=2000)
    assert told["reason"] == "1,500 rows of the `test` split are fewer than 2,000"


def test_a_guard_keeps_the_champion(compare: Any, enthrone: Any, shards: Any, tmp_path: Path) -> None:
    weigh = _weigh(1.6, 1.0)

    def shy(rows):  # type: ignore[no-untyped-def]
        logits = weigh(rows)
        logits[:, 0] += 1.3
        return logits

    enthrone(_save(tmp_path / "old", _weigh(0.0, 1.0), describe_data(shards[1])))
    told = compare(_save(tmp_path / "new", shy), metric="loss", guards="recall_yes: not_worse 0.01")
    assert told["verdict"] == "keep"
    assert told["goal"] == "minimize"
    assert told["difference"]["value"] > 0  # the loss is lower
    assert told["reason"].startswith(
        "the guard `recall_yes: not_worse 0.01` does not hold: recall_yes is worse"
    )
    assert [guard["holds"] for guard in told["guards"]] == [False]


@smoke
def test_a_champion_that_does_not_load_is_one_sentence_with_the_way_out(
    component: Run, compare: Any, enthrone: Any, shards: Any, tmp_path: Path
) -> None:
    old = _save(tmp_path / "old", _weigh(0.0, 1.0), describe_data(shards[1]))
    (old / "python_model.pkl").write_bytes(b"broken")
    enthrone(old)
    model = _save(tmp_path / "new", _weigh(1.6, 1.0))
    ports = {"model": model, "shards": shards[0], "comparison": tmp_path / "out"}
    done = component("compare", **ports)
    assert done.returncode == 2
    assert f"error: the champion `{NAME}` version 1: cannot load the model" in done.stderr
    assert f"help: `worldsize rollback {NAME} VERSION` restores another one" in done.stderr
    assert "Traceback" not in done.stderr
    assert compare(model, rule="newest")["verdict"] == "promote"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"metric": "acuracy"}, "error: `acuracy` is not a metric of this classification\nhelp: did you"),
        ({"guards": "recall_no_one: not_worse 0.1"}, "error: `recall_no_one` is not a metric of this"),
        ({"guards": "recall_yes"}, "error: `recall_yes` is not a guard"),
        ({"rule": "beter"}, "error: `beter` is not a rule\nhelp: did you mean `better`?"),
        ({"rule": "not_worse"}, "error: `not_worse`: the rule `not_worse` takes a number"),
        ({"rule": "significant 95"}, "error: `significant 95`: a confidence is from 0.5 to less than 1"),
        ({"model_name": "a/b"}, "error: model name `a/b` is empty or holds"),
    ],
)  # fmt: skip
def test_an_input_that_is_wrong_is_one_sentence(
    component: Run, shards: Any, tmp_path: Path, inputs: Any, message: str
) -> None:
    model = _save(tmp_path / "new", _weigh(1.6, 1.0))
    done = component("compare", model=model, shards=shards[0], comparison=tmp_path / "out", **inputs)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("who", "message"),
    [
        ("new", "answers with a number that is not finite"),
        ("old", "answers with a number that is not finite"),
        ("old", "answers 5 values a row for 2 classes"),
    ],
)
def test_answers_that_do_not_fit_name_their_model(
    ports: tuple[Run, Path], enthrone: Any, shards: Any, who: str, message: str
) -> None:
    component, tmp_path = ports
    width = 5 if "5 values" in message else 2

    def predict(rows):  # type: ignore[no-untyped-def]
        import numpy as np

        return np.full((len(rows), width), np.nan)

    models = {
        name: _save(tmp_path / name, predict if name == who else _weigh(1, 1), describe_data(shards[1]))
        for name in ("old", "new")
    }
    enthrone(models["old"])
    done = component("compare", model=models["new"], shards=shards[0], comparison=tmp_path / "out")
    assert done.returncode == 2
    title = "the new model" if who == "new" else f"the champion `{NAME}` version 1"
    assert f"error: {title} {message}" in done.stderr


def test_classes_that_the_champion_lacks_have_no_probability(
    compare: Any, enthrone: Any, tmp_path: Path
) -> None:
    import numpy as np

    draw = np.random.default_rng(5)
    labels = draw.integers(0, 3, 1200)
    rows = np.eye(3, dtype=np.float32)[labels]
    folder = tmp_path / "shards"
    manifest = write_shards(
        folder,
        terms.CLASSIFICATION,
        {"train": (rows, labels), "test": (rows, labels)},
        label=m.Label(("y",), ("ant", "bee", "cow")),
    )

    def two(rows):  # type: ignore[no-untyped-def]
        import pandas as pd

        return pd.DataFrame({"cow": rows[:, 2] * 8, "ant": rows[:, 0] * 8, "emu": rows[:, 0] * 0})

    enthrone(_save(tmp_path / "old", two, describe_data(manifest)))
    told = compare(_save(tmp_path / "new", lambda rows: rows * 5), folder)
    assert told["champion"]["metric"] == pytest.approx(1 - (labels == 1).mean())
    assert told["challenger"]["metric"] == 1.0
    assert told["verdict"] == "promote"


def _other_tasks() -> dict[str, tuple[str, Any, Any, Any, str]]:
    """Each task: rows, targets, label, what the models answer of rows and noise, and the metric."""
    import numpy as np

    draw = np.random.default_rng(7)
    rows = draw.normal(size=(600, 3)).astype(np.float32)
    tokens = draw.integers(97, 101, (400, 9)).astype(np.uint8)
    return {
        "r2": (terms.REGRESSION, rows, rows @ [[1.0], [2.0], [0.5]], m.Label(("y",)), "r2"),
        "rmse": (terms.REGRESSION, rows, rows @ [[1.0], [2.0], [0.5]], m.Label(("y",)), "rmse"),
        "labels": (
            terms.MULTI_LABEL, rows, (rows > 0.3).astype(np.uint8), m.Label(("y",), ("a", "b", "c")), "f1",
        ),
        "tokens": (terms.LANGUAGE_MODEL, tokens, None, None, "perplexity"),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["r2", "rmse", "labels", "tokens"])
def test_every_task_is_compared_as_evaluate_measures_it(
    component: Run, compare: Any, enthrone: Any, tmp_path: Path, name: str
) -> None:
    task, rows, targets, label, metric = _other_tasks()[name]
    folder = tmp_path / "shards"
    features = m.Features("tokens", "uint8", (9,), tokenizer=m.BYTES) if label is None else None
    splits = dict.fromkeys(("train", "test"), (rows, targets))
    manifest = write_shards(folder, task, splits, label=label, features=features)

    def answer(noise: float) -> Callable[[Any], Any]:
        def predict(rows):  # type: ignore[no-untyped-def]
            import numpy as np

            draw = np.random.default_rng(int(abs(np.asarray(rows, float)).sum() * 1000) % 2**32)
            if task == "language_model":
                logits = draw.normal(size=(*rows.shape, 256)).astype(np.float32) * noise
                logits[..., 97:101] += 6
                return logits
            if task == "regression":
                return rows @ [1.0, 2.0, 0.5] + noise * draw.normal(size=len(rows))
            return (rows - 0.3) + noise * draw.normal(size=rows.shape)

        return predict

    enthrone(_save(tmp_path / "old", answer(0.9), describe_data(manifest)))
    model = _save(tmp_path / "new", answer(0.3))
    told = compare(model, folder, metric=metric, rule="significant 0.95")
    done = component("evaluate", model=model, shards=folder, metrics=tmp_path / "metrics")
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "metrics" / "metrics.json").read_text())
    assert told["challenger"]["metric"] == metrics[metric]
    assert told["verdict"] == "promote"
    assert told["difference"]["low"] > 0
    assert told["difference"]["rows"] == len(rows)


@smoke
def test_two_weeks_of_a_feed_from_files_to_a_verdict(
    component: Run, shard: Callable[..., Any], compare: Any, tmp_path: Path
) -> None:
    """scikit-learn's models on the built-in shards of a table whose newest rows test."""
    import mlflow
    import numpy as np
    import pandas as pd
    from mlflow.models import infer_signature
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import mean_absolute_error

    from wschampion.champion import claim
    from wsmlflow.registry import MlflowRegistry

    draw = np.random.default_rng(11)
    days = pd.date_range("2026-01-01", periods=1400, freq="h")
    feed = pd.DataFrame({"sold_on": days, "size": draw.normal(size=1400), "age": draw.normal(size=1400)})
    feed["price"] = 3 * feed["size"] + feed["age"] * np.linspace(-2, 2, 1400) + draw.normal(size=1400) * 0.3
    fitted, names = {}, ["size", "age"]
    for week, rows in (("first", 1000), ("second", 1400)):
        folder = tmp_path / week
        feed[:rows].to_csv(tmp_path / f"{week}.csv", index=False)
        inputs = {"label": "price", "task": "regression", "split_time": "sold_on", "test_fraction": 0.2}
        done = shard(data=tmp_path / f"{week}.csv", shards=folder, shard_count=1, **inputs)
        assert done.returncode == 0, done.stderr
        manifest = m.read_manifest(folder)
        train = feed[: int(rows * 0.6)]
        fitted[week] = LinearRegression().fit(train[names], train["price"])
        data = {"worldsize": {"source": "prices.csv", "model": "linear", "data": describe_data(manifest)}}
        mlflow.sklearn.save_model(
            fitted[week],
            str(tmp_path / f"model_{week}"),
            signature=infer_signature(train[names], fitted[week].predict(train[names])),
            metadata=data,
            pip_requirements=["scikit-learn"],
            serialization_format="pickle",
        )
    first, second = tmp_path / "model_first", tmp_path / "model_second"
    ports = {"model": first, "shards": tmp_path / "first"}
    assert component("evaluate", metrics=tmp_path / "metrics", **ports).returncode == 0
    done = component("register", metrics=tmp_path / "metrics", registration=tmp_path / "r", **ports)
    assert done.returncode == 0, done.stderr
    told = compare(first, tmp_path / "first", model_name="prices-linear")
    assert told["verdict"] == "promote"
    registry = MlflowRegistry(mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}"))
    claim(registry, "prices-linear", "1", evidence=told["reason"], job="j", predecessor=None)

    told = compare(second, tmp_path / "second", metric="mae", guards="r2: not_worse 0.02")
    tested = feed[1400 - told["rows"]["compared"] :]
    assert told["champion"]["version"] == "1"
    assert told["champion"]["trained_until"] < "2026-02-12" < told["challenger"]["trained_until"]
    for side, week in (("champion", "first"), ("challenger", "second")):
        expected = mean_absolute_error(tested["price"], fitted[week].predict(tested[names]))
        assert told[side]["metric"] == pytest.approx(expected, rel=1e-5)
    assert told["verdict"] == "promote"
    told = compare(second, tmp_path / "first", metric="mae")  # its training rows are among those that test
    assert told["verdict"] == "keep"
    assert "rows are new to the new model: it was trained on rows up to" in told["reason"]
