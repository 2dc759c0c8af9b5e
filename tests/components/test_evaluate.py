from __future__ import annotations

import importlib
import json
import math
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wsmetrics.names import METRICS
from wsshards import manifest as m
from wsshards import terms
from wsshards.errors import UserError
from wsshards.reader import ShardReader

pytestmark = [
    pytest.mark.run,
    pytest.mark.smoke,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore"),
]

Run = Callable[..., Any]
SOURCE = Path(__file__).parents[2] / "components" / "evaluate" / "src"


@pytest.fixture(scope="module")
def scores() -> Any:
    return importlib.import_module("wsmodels.scores")


@pytest.fixture(scope="module")
def draw_scores() -> Any:
    return runpy.run_path(str(SOURCE / "plots.py"))["draw_scores"]


def _manifest(task: str, label: m.Label | None = None, **features: Any) -> m.Manifest:
    spec = m.Features("features", "float32", (4,), **features)
    return m.Manifest(task, "test", 0, spec, label, m.Split(9, ()), m.Split(9, ()))


@pytest.fixture(scope="module")
def digits(shard: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sharded digits, `shards`, made by the component's own code."""
    folder = tmp_path_factory.mktemp("digits")
    done = shard(source="builtin:digits", shards=folder / "shards", shard_count=1)
    assert done.returncode == 0, done.stderr
    return folder


def _save(folder: Path, name: str, predict: Callable[..., Any], **options: Any) -> Path:
    import mlflow

    class Model(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            return predict(model_input)

    path = folder / name
    mlflow.pyfunc.save_model(str(path), python_model=Model(), pip_requirements=["numpy"], **options)
    return path


def _fitted(folder: Path) -> tuple[Any, Any, Any]:
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from wsshards.reader import ShardReader

    parts = []
    for split in ("train", "validation"):
        reader = ShardReader(folder / "shards", split)
        x, y = reader.gather(np.arange(len(reader)))
        parts.append((x.reshape(len(x), -1), y))
    return LogisticRegression(max_iter=300).fit(*parts[0]), *parts[1]


def test_drift_is_logged_and_drawn(component: Run, shard: Run, digits: Path, tmp_path: Path) -> None:
    import mlflow
    import numpy as np

    shards, reference = tmp_path / "shards", digits / "shards" / m.FEED_NAME
    assert shard(source="builtin:digits", shards=shards, feed_reference=reference).returncode == 0
    model = _save(tmp_path, "constant", lambda rows: np.full((len(rows), 10), 0.1))
    done = component("evaluate", model=model, shards=shards, metrics=tmp_path / "metrics")
    assert done.returncode == 0, done.stderr
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = client.search_runs(["0"])
    drift = {name: value for name, value in run.data.metrics.items() if name.startswith("feed.")}
    assert drift == {"feed.psi.label": 0, "feed.psi.mean of a row": 0}
    assert "drift.png" in [file.path for file in client.list_artifacts(run.info.run_id)]
    (shards / m.FEED_NAME).write_text("{}")
    done = component("evaluate", model=model, shards=shards, metrics=tmp_path / "again")
    assert done.returncode == 2
    assert "feed.json` is not what was written" in done.stderr


def test_sklearn_classifier(component: Run, digits: Path, tmp_path: Path) -> None:
    import mlflow
    from mlflow.models import infer_signature
    from sklearn.metrics import f1_score, log_loss, precision_score

    model, x, y = _fitted(digits)
    signature = infer_signature(x, model.predict_proba(x))
    mlflow.sklearn.save_model(
        model,
        tmp_path / "m",
        signature=signature,
        pyfunc_predict_fn="predict_proba",
        pip_requirements=["scikit-learn"],
    )
    ports = {"model": tmp_path / "m", "shards": digits / "shards", "metrics": tmp_path / "out"}
    done = component("evaluate", batch_size=100, **ports)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    predicted = model.predict(x)
    assert metrics["accuracy"] == pytest.approx((predicted == y).mean())
    assert metrics["accuracy"] > 0.9
    assert metrics["loss"] == pytest.approx(log_loss(y, model.predict_proba(x)), rel=1e-5)
    assert metrics["f1"] == pytest.approx(f1_score(y, predicted, average="macro"))
    assert metrics["precision_7"] == pytest.approx(precision_score(y, predicted, average=None)[7])
    assert metrics["rows"] == len(y)
    assert (tmp_path / "out" / "confusion_matrix.png").read_bytes().startswith(b"\x89PNG")

    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = client.search_runs(["0"])
    assert run.data.metrics["accuracy"] == pytest.approx(metrics["accuracy"])
    assert run.data.metrics["recall_3"] == pytest.approx(metrics["recall_3"])
    assert run.info.status == "FINISHED"
    assert "confusion_matrix.png" in [file.path for file in client.list_artifacts(run.info.run_id)]


def test_own_torch_model(component: Run, digits: Path, tmp_path: Path) -> None:
    """A plain torch model that knows nothing of us: logits, pictures in, a signature with its shape."""
    import mlflow
    import numpy as np
    import torch
    from mlflow.models import infer_signature

    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    example = np.zeros((2, 1, 8, 8), np.float32)
    mlflow.pytorch.save_model(
        model,
        str(tmp_path / "m"),
        signature=infer_signature(example, np.zeros((2, 10), np.float32)),
        serialization_format="pickle",
        pip_requirements=["torch"],
    )
    done = component("evaluate", model=tmp_path / "m", shards=digits / "shards", metrics=tmp_path / "out")
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    _, x, y = _fitted(digits)
    logits = model(torch.from_numpy(x).reshape(-1, 1, 8, 8))
    expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(y))
    assert metrics["loss"] == pytest.approx(float(expected), rel=1e-5)


def test_language_model(component: Run, tmp_path: Path) -> None:
    import numpy as np

    (tmp_path / "d.txt").write_bytes(bytes(np.random.default_rng(0).integers(97, 101, 20_000, np.uint8)))
    values = {"data": tmp_path / "d.txt", "sequence_length": 16, "shard_count": 1}
    done = component("shard_data", shards=tmp_path / "shards", **values)
    assert done.returncode == 0, done.stderr

    def predict(rows):  # type: ignore[no-untyped-def]
        import numpy as np

        answer = np.full((*rows.shape, 256), -50.0, np.float32)
        answer[..., 97:101] = 0.0
        return answer

    model = _save(tmp_path, "m", predict)
    done = component("evaluate", model=model, shards=tmp_path / "shards", metrics=tmp_path / "out")
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["bits_per_byte"] == pytest.approx(2.0, rel=1e-5)
    assert metrics["loss"] == pytest.approx(math.log(4), rel=1e-5)
    assert metrics["perplexity"] == pytest.approx(4.0, rel=1e-5)
    assert metrics["accuracy"] == pytest.approx(0.25, abs=0.03)
    assert not (tmp_path / "out" / "confusion_matrix.png").exists()
    # 17 × 256 scores a row: of 100 rows as many as there is room for.
    predict_rows = importlib.import_module("wsmodels.predict")  # imports MLflow
    reader = ShardReader(tmp_path / "shards", "validation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict_rows, "MAX_SCORES", 3 * 17 * 256)
        assert len(next(iter(predict_rows.read_batches(reader, 100)))[0]) == 3
        patch.setattr(predict_rows, "MAX_SCORES", 1)
        assert sum(len(inputs) for inputs, _ in predict_rows.read_batches(reader, 100)) == len(reader)


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda rows: rows.reshape(len(rows), -1)[:, :7], "the model answers 7 values a row for 10 classes"),
        (lambda rows: rows.reshape(-1, 64)[:3], "the model answers 256 rows with an array of shape [3, 64]"),
        (lambda rows: 1 / 0, "the model fails on rows of shape [256, 1, 8, 8]: division by zero"),
    ],
)
def test_model_that_does_not_fit(
    component: Run, digits: Path, tmp_path: Path, predict: Any, message: str
) -> None:
    model = _save(tmp_path, "m", predict)
    done = component("evaluate", model=model, shards=digits / "shards", metrics=tmp_path / "out")
    assert done.returncode == 2, done.stderr
    assert f"error: {message}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "metrics.json").exists()


def test_signature_of_another_width(component: Run, digits: Path, tmp_path: Path) -> None:
    import numpy as np
    from mlflow.models import infer_signature

    model = _save(tmp_path, "m", lambda rows: rows, signature=infer_signature(np.zeros((2, 3), np.float32)))
    done = component("evaluate", model=model, shards=digits / "shards", metrics=tmp_path / "out")
    assert done.returncode == 2
    assert "error: the model takes rows of shape [3], and the shards have [1, 8, 8]" in done.stderr


def test_folder_that_is_no_model(component: Run, digits: Path, tmp_path: Path) -> None:
    done = component("evaluate", model=tmp_path, shards=digits / "shards", metrics=tmp_path / "out")
    assert done.returncode == 2
    assert "error: cannot load the model" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", ["number", "name", "float", "column", "probability", "logit"])
def test_every_form_of_answer_counts_the_same(scores: Any, kind: str) -> None:
    import numpy as np

    targets = np.array([0, 1, 2, 1, 0, 2])
    decided = np.array([0, 1, 2, 0, 0, 1])
    names = np.array(["ant", "bee", "cow"])
    logits = np.eye(3)[decided] * 4.0
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    answers = {
        "number": decided, "name": names[decided], "float": decided.astype(float),
        "column": decided.astype(np.int32), "probability": shares, "logit": logits,
    }[kind]  # fmt: skip
    made = scores.ClassifierScores(names.tolist())
    for part in (slice(0, 2), slice(2, 6)):
        made.add(answers[part], targets[part])
    summary, details = made.metrics()
    assert summary["accuracy"] == pytest.approx(4 / 6)
    assert details["recall_bee"] == pytest.approx(1 / 2)
    assert made.confusion().tolist() == [[2, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert ("loss" in summary) is (kind in {"probability", "logit"})
    if "loss" in summary:
        assert summary["loss"] == pytest.approx(-np.log(shares[np.arange(6), targets]).mean())


def test_probability_of_the_second_class(scores: Any) -> None:
    import numpy as np

    made = scores.ClassifierScores(["no", "yes"])
    made.add(np.array([0.9, 0.2, 0.6]), np.array([1, 0, 0]))
    summary, _ = made.metrics()
    assert summary["accuracy"] == pytest.approx(2 / 3)
    assert summary["loss"] == pytest.approx(-np.log([0.9, 0.8, 0.4]).mean())


def test_probabilities_of_trees_are_whole_in_some_batches(scores: Any) -> None:
    import numpy as np

    made = scores.ClassifierScores(["no", "yes"])
    made.add(np.array([0.0, 1.0]), np.array([0, 1]))
    assert "loss" not in made.metrics()[0]  # these could be classes
    made.add(np.array([0.25]), np.array([1]))
    assert made.metrics()[0]["auroc"] == 1.0
    assert "loss" in made.metrics()[0]


def test_several_labels(
    scores: Any, draw_scores: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np
    from matplotlib import pyplot as plt

    shares = np.array([[0.9, 0.2], [0.4, 0.8], [0.6, 0.7]])
    labels = np.array([[1, 0], [0, 1], [0, 1]], np.uint8)
    made = scores.MultiLabelScores(["a$b", "_c"])
    for row in range(3):
        made.add(shares[row : row + 1], labels[row : row + 1])
    summary, details = made.metrics()
    assert set(summary) == set(METRICS[terms.MULTI_LABEL])
    assert summary["accuracy"] == pytest.approx(2 / 3)
    assert details["precision_a_b"] == pytest.approx(0.5)
    drawn: list[Any] = []
    monkeypatch.setattr(plt, "close", drawn.append)
    assert [path.name for path in draw_scores(made, tmp_path)] == ["roc_curve.png"]
    monkeypatch.undo()
    legend = drawn[0].axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [r"a\$b: area 1.000", "c: area 1.000"]
    plt.close("all")
    decided = scores.MultiLabelScores(["a", "b"])
    decided.add((shares >= 0.5).astype(float), labels)
    assert "loss" not in decided.metrics()[0]
    assert draw_scores(decided, tmp_path) == []
    with pytest.raises(UserError, match="answers 3 values a row for 2 classes"):
        made.add(np.zeros((1, 3)), labels[:1])


def test_numbers(scores: Any, draw_scores: Any, tmp_path: Path) -> None:
    import numpy as np

    made = scores.RegressionScores(["price", "area"], (2.0, 1.0), 3)
    made.add(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [3.0, 6.0]]))
    made.add(np.array([[1, 2]]), np.array([[5.0, 2.0]]))
    summary, details = made.metrics()
    assert summary["mae"] == pytest.approx((4 / 3 + 2 / 3) / 2)
    assert details["rmse_price"] == pytest.approx((16 / 3) ** 0.5)
    assert details["r2_area"] == pytest.approx(1 - 4 / (32 / 3))
    (picture,) = draw_scores(made, tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    single = scores.RegressionScores(["price"], (1.0,), 2)
    single.add(np.array([1.0, 2.0]), np.array([[1.0], [2.0]]))
    assert single.metrics()[0]["r2"] == 1.0
    assert single.metrics()[1] == {}
    for answers, message in (
        (np.zeros((1, 3)), "the model answers 3 values a row for 1 target"),
        (np.array(["dear"]), "the model answers with `dear` for 1 target"),
        (np.array([np.inf]), "not finite"),
    ):
        with pytest.raises(UserError, match=message):
            single.add(answers, np.zeros((1, 1)))


def test_certain_and_wrong_is_a_number(scores: Any) -> None:
    import numpy as np

    made = scores.ClassifierScores(["a", "b"])
    made.add(np.array([[1.0, 0.0]]), np.array([1]))
    assert 80 < made.metrics()[0]["loss"] < 100


def test_numbers_that_are_not_finite_are_refused(scores: Any) -> None:
    import numpy as np

    with pytest.raises(UserError, match="not finite"):
        scores.ClassifierScores(["a", "b"]).add(np.array([[np.nan, 0.0]]), np.array([1]))
    with pytest.raises(UserError, match="not finite"):
        scores.make_scores(_manifest(terms.LANGUAGE_MODEL), 1).add(
            np.full((1, 1, 256), np.nan, np.float32), np.array([[1]])
        )
    with pytest.raises(UserError, match="answers `eleven`, which is not one of the 2 classes"):
        scores.ClassifierScores(["a", "b"]).add(np.array(["eleven"]), np.array([1]))
    with pytest.raises(UserError, match=r"with shape \[1, 5\] for next bytes \[1, 2\]"):
        scores.make_scores(_manifest(terms.LANGUAGE_MODEL), 1).add(
            np.zeros((1, 5), np.float32), np.array([[1, 2]])
        )


def test_decisions_from_a_threshold_on_stand_beside_those_from_one_half(scores: Any) -> None:
    import numpy as np

    targets = np.array([0] * 9 + [1])
    answers = np.full((10, 2), [0.9, 0.1])
    answers[8:] = [[0.7, 0.3], [0.6, 0.4]]
    for shaped in (answers, answers[:, 1]):
        made = scores.ClassifierScores(["no", "yes"])
        made.threshold = 0.25
        made.add(shaped, targets)
        summary, details = made.metrics()
        assert summary["constant_accuracy_no"] == summary["accuracy"] == 0.9
        assert summary["average_precision"] == 1.0
        assert (details["recall_yes"], details["f1_yes"]) == (0.0, 0.0)
        assert details["decision_threshold"] == 0.25
        assert details["precision_at_threshold"] == 0.5
        assert details["recall_at_threshold"] == 1.0
        assert details["f1_at_threshold"] == pytest.approx(2 / 3)
    made = scores.ClassifierScores(["no", "yes"])
    made.threshold = 0.25
    made.add(targets, targets)  # classes, not probabilities
    assert "decision_threshold" not in made.metrics()[1]


def test_what_says_most_is_printed_first() -> None:
    sys.path.insert(0, str(SOURCE))
    try:
        evaluate = importlib.import_module("evaluate")
    finally:
        sys.path.remove(str(SOURCE))
    summary = {"accuracy": 0.93, "average_precision": 0.6, "rows": 100.0, "constant_accuracy_no": 0.93}
    details = {"recall_no": 1.0, "recall_yes": 0.0, "decision_threshold": 0.2}
    details |= {"precision_at_threshold": 0.5, "recall_at_threshold": 0.75, "f1_at_threshold": 0.6}
    assert list(evaluate.describe(summary, details)) == [
        "average_precision: 0.6; a guess gets 0.07",
        "accuracy: 0.93; the constant answer `no` gets 0.93",
        "rows: 100",
        "from the decision threshold 0.2 on: precision 0.5, recall 0.75, f1 0.6",
    ]
