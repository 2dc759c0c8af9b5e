from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.run,
    pytest.mark.smoke,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore"),
]

Run = Callable[..., Any]


def _model(folder: Path, predict: Any = None, **options: Any) -> Path:
    import mlflow
    import numpy as np

    def default(rows):  # type: ignore[no-untyped-def]
        return rows

    class Model(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            return (predict or default)(model_input)

    options = {
        "input_example": np.ones((3, 2), np.float32),
        "metadata": {"worldsize": {"world_size": 8}},
    } | options
    path = folder / "model"
    mlflow.pyfunc.save_model(str(path), python_model=Model(), pip_requirements=["numpy"], **options)
    return path


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "metrics.json").write_text(json.dumps({"accuracy": 0.961, "loss": 0.15}))
    return tmp_path / "metrics"


def _versions(tmp_path: Path) -> list[Any]:
    import mlflow

    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    return list(client.search_model_versions("name = 'm x'"))


def test_above_the_gate_it_is_registered_and_predicts(component: Run, tmp_path: Path, metrics: Path) -> None:
    import mlflow

    model = _model(tmp_path)
    for number in ("1", "2"):
        done = component(
            "register",
            model=model,
            metrics=metrics,
            model_name="m x",
            gate="accuracy >= 0.95; loss < 0.2",
            description="Weekly; it's fine".replace("'", ""),
            tags="team=vision",
            registration=tmp_path / "reg",
            env={"WORLDSIZE_SOURCE_COMMIT": "0123abc"},
        )
        assert done.returncode == 0, done.stderr
        assert f"registered m x version {number}" in done.stdout.splitlines()
        assert f"loaded back models:/m x/{number}: it predicts 3 rows" in done.stdout.splitlines()
    registration = json.loads((tmp_path / "reg" / "registration.json").read_text())
    assert {key: registration[key] for key in ("registered", "name", "version", "uri")} == {
        "registered": True, "name": "m x", "version": "2", "uri": "models:/m x/2",
    }  # fmt: skip
    assert (
        registration["tags"]["worldsize.model"]
        == hashlib.sha256((model / "MLmodel").read_bytes()).hexdigest()
    )
    newest = max(_versions(tmp_path), key=lambda version: int(version.version))
    assert newest.tags["worldsize.world_size"] == "8"
    assert newest.tags["metric.accuracy"] == "0.961"
    assert newest.tags["metric.loss"] == "0.15"
    assert newest.tags["gate"] == "accuracy >= 0.95; loss < 0.2"
    assert newest.tags["team"] == "vision"
    assert newest.tags["source.commit"]
    assert newest.description == "Weekly; its fine"
    run = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}").get_run(newest.run_id)
    assert run.info.status == "FINISHED"


@pytest.mark.parametrize("on_fail", ["error", "skip"])
def test_below_the_gate_nothing_is_registered(
    component: Run, tmp_path: Path, metrics: Path, on_fail: str
) -> None:
    done = component(
        "register",
        model=_model(tmp_path),
        metrics=metrics,
        model_name="m x",
        gate="accuracy >= 0.97; loss < 0.2",
        on_fail=on_fail,
        registration=tmp_path / "reg",
    )
    sentence = "nothing is registered: accuracy is 0.961, and the gate requires >= 0.97"
    if on_fail == "error":
        assert done.returncode == 2
        assert done.stderr.splitlines()[0] == f"error: {sentence}"
        assert not (tmp_path / "reg").exists()
    else:
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [sentence]
        registration = json.loads((tmp_path / "reg" / "registration.json").read_text())
        assert registration["registered"] is False
        assert "0.961" in registration["reason"]
    assert not (tmp_path / "mlflow.db").exists() or _versions(tmp_path) == []


def test_version_that_does_not_predict_is_taken_back(component: Run, tmp_path: Path, metrics: Path) -> None:
    def fails(rows):  # type: ignore[no-untyped-def]
        import os

        if "WORLDSIZE_TEST_BREAK" in os.environ:
            raise ValueError("broken on purpose")
        return rows

    model = _model(tmp_path, fails)
    done = component(
        "register", model=model, metrics=metrics, model_name="m x", registration=tmp_path / "reg",
        env={"WORLDSIZE_TEST_BREAK": "1"},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "`models:/m x/1` was taken back: the model does not predict: broken on purpose" in done.stderr
    assert "Traceback" not in done.stderr
    assert _versions(tmp_path) == []
    assert not (tmp_path / "reg" / "registration.json").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gate": "acuracy > 1"}, "the gate asks for `acuracy`, which was not measured"),
        ({"gate": "accuracy"}, "`accuracy` in the gate is not a condition"),
        ({"metrics": "."}, "has no `metrics.json`"),
        ({"model": "."}, "is not an MLflow model: it has no readable `MLmodel`"),
        ({"model_name": "a/b"}, "model name `a/b` is empty or holds `/` or `:`"),
    ],
)
def test_bad_arguments(
    component: Run, tmp_path: Path, metrics: Path, values: dict[str, Any], message: str
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "MLmodel").write_text("flavors: {}")
    given = {"model": tmp_path / "model", "metrics": metrics, "model_name": "m x"}
    done = component("register", registration=tmp_path / "reg", **(given | values))
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[-2]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "reg").exists()


def test_proof_on_held_out_rows(component: Run, tmp_path: Path, metrics: Path) -> None:
    done = component("shard_data", source="builtin:digits", shards=tmp_path / "shards")
    assert done.returncode == 0, done.stderr
    done = component(
        "register",
        model=_model(tmp_path, input_example=None),
        metrics=metrics,
        model_name="m x",
        shards=tmp_path / "shards",
        registration=tmp_path / "reg",
    )
    assert done.returncode == 0, done.stderr
    assert "it predicts 32 rows" in done.stdout
