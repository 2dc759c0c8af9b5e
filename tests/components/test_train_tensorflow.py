"""train_tensorflow in real clusters, on real data: the same mathematics with any number of workers."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tracked_metrics import read_metric

HERE = importlib.util.find_spec("tensorflow")  # importing it takes seconds
pytestmark = [
    pytest.mark.skipif(HERE is None, reason="TensorFlow is not installed"),
    pytest.mark.run,
    pytest.mark.timeout(500),
]

ROOT = Path(__file__).parents[2]
COMPONENT = ROOT / "components" / "train_tensorflow" / "component.yml"
# In it `import torch` fails, as where only TensorFlow is installed.
WITHOUT_TORCH = Path(__file__).with_name("without_torch")
# 14 steps of 192 samples, in micro-batches of 32 with any number of workers. Dropout, so that its random
# numbers have to follow the samples; no torch, as its import would fail.
NET = """
import keras
import sys
def net(input_shape, classes):
    assert sys.modules.get("torch") is None
    return keras.Sequential([
        keras.Input(input_shape),
        keras.layers.Permute((2, 3, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.GroupNormalization(4),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(classes),
    ])
"""
LEGACY = """
import tf_keras
def net(input_shape, classes):
    return tf_keras.Sequential([
        tf_keras.layers.InputLayer(input_shape),
        tf_keras.layers.Flatten(),
        tf_keras.layers.Dense(32),
        tf_keras.layers.BatchNormalization(),
        tf_keras.layers.Activation("relu"),
        tf_keras.layers.Dense(classes, kernel_regularizer="l2"),
    ])
"""
LAW = {"epochs": 2, "batch_size_per_device": 32, "global_batch_size": 192, "learning_rate": 0.1}
LAW |= {
    "reference_learning_rate": 0.02,
    "warmup_epochs": 1,
    "model": "mine/net.py:net",
    "max_gradient_norm": 5,
}


@dataclass(frozen=True)
class Ended:
    """How a cluster ended: by task its status and what it said; and its outputs."""

    status: dict[str, int]
    said: dict[str, str]
    folder: Path
    losses: dict[int, float]
    seconds: float

    @property
    def ok(self) -> bool:
        return not any(self.status.values())

    @property
    def errors(self) -> str:
        return "\n".join(f"[{task}] {self.status[task]} {self.said[task][-1500:]}" for task in self.status)


class Cluster:
    """Processes with TF_CONFIG, as Azure ML starts them."""

    def __init__(
        self, folder: Path, code: Path, shards: Path, env: dict[str, str], python: list[str]
    ) -> None:
        self.folder, self.code, self.shards, self.env, self.python = folder, code, shards, env, python
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, workers: int, **values: Any) -> Cluster:
        described = yaml.safe_load(COMPONENT.read_text(encoding="utf-8"))
        defaults = {key: port["default"] for key, port in described["inputs"].items() if "default" in port}
        given = defaults | {"world_size": workers, "checkpoints": self.folder / "checkpoints"}
        given |= {"shards": self.shards, "join_timeout": 120} | values
        command = described["command"].replace("${{outputs.model}}", str(self.folder / "model"))
        command = re.sub(
            r"\$\[\[--(\w+) .*?\]\]", lambda m: m[0][3:-2] if m[1] in given else "", command, flags=re.DOTALL
        )
        command = re.sub(r"\$\{\{\w+\.(\w+)\}\}", lambda m: str(given[m[1]]), command)
        for task in [f"worker-{index}" for index in range(workers)]:
            self.run(task, [*self.python, *shlex.split(command)[1:]], self._config(workers, task))
        return self

    def run(self, task: str, arguments: list[str], config: str) -> None:
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TF_CONFIG")}
        env |= {
            "MLFLOW_TRACKING_URI": f"sqlite:///{self.folder / 'mlflow.db'}",
            "PYTHONPATH": str(WITHOUT_TORCH),
        }
        env |= {"WORLDSIZE_PROGRESS": str(self.folder / "progress.jsonl"), "TF_CONFIG": config, **self.env}
        with (self.folder / f"{task}.log").open("wb") as log:
            self.started[task] = subprocess.Popen(
                arguments, cwd=self.code, env=env, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self, timeout: float = 300) -> Ended:
        began = time.monotonic()
        try:
            status = {
                task: process.wait(max(0.1, timeout - time.monotonic() + began))
                for task, process in self.started.items()
            }
        finally:
            self.kill()
        said = {task: (self.folder / f"{task}.log").read_text() for task in status}
        return Ended(status, said, self.folder, self._losses(), time.monotonic() - began)

    def kill(self) -> None:
        for process in self.started.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _config(self, workers: int, task: str) -> str:
        if workers == 1:
            return ""
        if not hasattr(self, "_ports"):
            probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(workers)]
            self._ports = [probe.getsockname()[1] for probe in probes]
            for probe in probes:
                probe.close()
        kind, index = task.split("-")
        cluster = {"worker": [f"127.0.0.1:{port}" for port in self._ports], "ps": []}  # as Azure ML writes it
        return json.dumps({"cluster": cluster, "task": {"type": kind, "index": int(index)}})

    def _losses(self) -> dict[int, float]:
        database = self.folder / "mlflow.db"
        return read_metric(database, "loss") if database.exists() else {}


@pytest.fixture(scope="module")
def cluster(
    snapshots: Callable[[str], Path],
    built_in_shards: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
    new_database: Callable[[Path], None],
    start_with_libraries: Callable[[str], list[str]],
) -> Callable[..., Cluster]:
    code = tmp_path_factory.mktemp("tensorflow") / "code"
    shutil.copytree(snapshots("train_tensorflow"), code)
    (code / "mine").mkdir()
    (code / "mine" / "net.py").write_text(NET)
    (code / "mine" / "legacy.py").write_text(LEGACY)
    shards = built_in_shards("digits")

    def new_cluster(env: dict[str, str] | None = None, *, cold: bool = False) -> Cluster:
        folder = tmp_path_factory.mktemp("cluster")
        new_database(folder / "mlflow.db")
        start = [] if cold else start_with_libraries("train_tensorflow")
        return Cluster(folder, code, shards, env or {}, [*start, sys.executable])

    return new_cluster


@pytest.fixture(scope="module")
def with_workers(cluster: Callable[..., Cluster]) -> Callable[[int], Ended]:
    done: dict[int, Ended] = {}

    def run(workers: int) -> Ended:
        if workers not in done:
            done[workers] = cluster().start(workers, gradient_accumulation_steps=6 // workers, **LAW).wait()
            assert done[workers].ok, done[workers].errors
        return done[workers]

    return run


def weights(run: Ended, step: int) -> dict[str, Any]:
    with np.load(run.folder / "checkpoints" / f"step-{step:08d}" / "state.npz") as stored:
        return {name: stored[name] for name in stored.files}


def assert_same_weights(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        difference = np.linalg.norm(value - second[name]) / max(float(np.linalg.norm(value)), 1e-12)
        assert difference < 1e-4, f"{name}: {difference:.2e}"


@pytest.mark.smoke
@pytest.mark.parametrize("workers", [2, 3])
def test_the_loss_of_every_step_is_the_same_with_any_number_of_workers(
    with_workers: Callable[[int], Ended], workers: int
) -> None:
    alone, group = with_workers(1), with_workers(workers)
    assert sorted(alone.losses) == list(range(1, 15))
    assert group.losses == pytest.approx(alone.losses, rel=1e-4)
    assert_same_weights(weights(alone, 14), weights(group, 14))


def test_the_model_is_saved_once_and_predicts_without_our_code(
    with_workers: Callable[[int], Ended],
    built_in_shards: Callable[[str], Path],
    start_with_libraries: Callable[[str], list[str]],
) -> None:
    group = with_workers(2)
    models = [path.parent for path in group.folder.rglob("MLmodel")]
    assert models == [group.folder / "model"]
    kept = sorted(path.name for path in (group.folder / "checkpoints").iterdir())
    assert kept == ["step-00000007", "step-00000014"]
    last = json.loads((group.folder / "progress.jsonl").read_text().splitlines()[-1])
    assert (last["step"], last["total_steps"]) == (14, 14)

    shards = built_in_shards("digits")
    code = Path(__file__).with_name("serve_alone.py")
    env = os.environ | {"PYTHONPATH": str(WITHOUT_TORCH)}
    command = [sys.executable, str(code), str(group.folder / "model"), str(shards)]
    served = subprocess.run(
        [*start_with_libraries("train_tensorflow"), *command],
        capture_output=True, text=True, timeout=200, check=False, env=env,
    )  # fmt: skip
    assert served.returncode == 0, served.stderr
    predicted = json.loads(served.stdout.splitlines()[-1])
    assert predicted["accuracy"] >= 0.85
    assert predicted["shape"] == [359, 10]
    assert predicted["alone"] == [1, 10]
    assert predicted["sums"] == pytest.approx(1, abs=1e-5)
    assert predicted["metadata"]["global_batch_size"] == 192
    assert predicted["metadata"]["final"]["loss"] == pytest.approx(group.losses[14])


def test_evicted_and_resumed_with_two_workers_and_with_one(
    cluster: Callable[..., Cluster],
    with_workers: Callable[[int], Ended],
    fault: Callable[..., dict[str, str]],
    tmp_path: Path,
) -> None:
    two = LAW | {"gradient_accumulation_steps": 3, "checkpoint_every_epochs": 0}
    stopped = cluster(env=fault(1, 9, "SIGTERM")).start(2, checkpoint_every_steps=10, **two).wait()
    assert stopped.status == {"worker-0": 75, "worker-1": 75}, stopped.errors
    assert "stopped: checkpoint `step-00000010` has all 10 steps" in stopped.said["worker-1"]
    found = stopped.folder / "checkpoints"
    same = cluster().start(2, resume_from=found, **two).wait()
    assert same.ok, same.errors
    own = weights(same, 14)
    for name, value in weights(with_workers(2), 14).items():
        assert np.array_equal(value, own[name]), name
    resumed = cluster().start(1, gradient_accumulation_steps=6, resume_from=found, **LAW).wait()
    assert resumed.ok, resumed.errors
    assert sorted(resumed.losses) == [11, 12, 13, 14]
    assert "resuming from checkpoint step-00000010: 10 steps done" in resumed.said["worker-0"]
    assert resumed.losses == pytest.approx({s: with_workers(1).losses[s] for s in range(11, 15)}, rel=1e-4)
    assert_same_weights(weights(with_workers(2), 14), weights(resumed, 14))


def test_a_model_of_tf_keras_with_batch_normalisation(cluster: Callable[..., Cluster]) -> None:
    plan = LAW | {
        "model": "mine/legacy.py:net",
        "optimizer": "adamw",
        "learning_rate": 0.01,
        "weight_decay": 0.1,
    }
    run = cluster().start(2, gradient_accumulation_steps=3, precision="bf16", **plan).wait()
    assert run.ok, run.errors
    assert "the model has batch normalisation" in run.said["worker-0"]
    assert run.losses[14] < 0.5 * run.losses[1]
    assert (run.folder / "model" / "MLmodel").is_file()


def test_the_others_end_when_a_worker_is_killed(cluster: Callable[..., Cluster]) -> None:
    running = cluster().start(2, gradient_accumulation_steps=3, **(LAW | {"epochs": 10_000}))
    try:
        deadline = time.monotonic() + 200
        while not (running.folder / "progress.jsonl").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        killed = time.monotonic()
        os.killpg(running.started["worker-1"].pid, signal.SIGKILL)
    except BaseException:
        running.kill()
        raise
    run = running.wait(60)
    assert time.monotonic() - killed < 10
    assert run.status == {"worker-0": 1, "worker-1": -signal.SIGKILL}
    assert "error: worker 1 has gone, so this process stops" in run.said["worker-0"]
    assert not (run.folder / "model").exists()


def only_errors(run: Ended) -> list[str]:
    """The first line of each process, after checking that all failed alike, quietly and early."""
    for task, status in run.status.items():
        assert status == 2, run.errors
        assert run.said[task].startswith("error: "), run.errors
        assert len(run.said[task].splitlines()) <= 2
    return [said.splitlines()[0] for said in run.said.values()]


@pytest.mark.smoke
def test_a_plan_for_others_is_refused_before_tensorflow_is_loaded(cluster: Callable[..., Cluster]) -> None:
    run = cluster(cold=True).start(2, gradient_accumulation_steps=3, **(LAW | {"world_size": 8})).wait()
    assert "error: the plan is for 8 replicas but the launcher started 2 workers" in only_errors(run)[0]
    run = cluster(cold=True).start(1, strategy="parameter_server", **LAW).wait()
    assert "needs a parameter server, but `TF_CONFIG` does not name one" in only_errors(run)[0]


def test_a_worker_that_never_comes_is_named(cluster: Callable[..., Cluster]) -> None:
    running = cluster()
    running.start(3, gradient_accumulation_steps=2, join_timeout=4, **LAW)
    absent = running.started.pop("worker-2")
    os.killpg(absent.pid, signal.SIGKILL)
    absent.wait()
    for message in only_errors(running.wait()):
        assert message.startswith("error: worker 2 (`127.0.0.1:")
        assert message.endswith("did not join within 4 s")


def test_workers_with_other_code_are_named(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    running = cluster()
    other = tmp_path / "code"
    shutil.copytree(running.code, other)
    (other / "mine" / "net.py").write_text(NET + "# changed\n")
    running.start(2, gradient_accumulation_steps=3, **LAW)
    first = running.started.pop("worker-1")
    arguments, config = list(first.args), running._config(2, "worker-1")  # type: ignore[arg-type]
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    running.code = other
    running.run("worker-1", arguments, config)
    for message in only_errors(running.wait()):
        assert message == "error: worker 1 runs other code than worker 0: `mine/net.py` differs"


def test_models_and_optimizers_are_those_of_torch() -> None:
    pytest.importorskip("torch")
    script = Path(__file__).with_name("tensorflow_beside_torch.py")
    env = os.environ | {"PYTHONPATH": str(ROOT / "components" / "_shared")}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=250, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    for name, difference in json.loads(done.stdout.splitlines()[-1]).items():
        assert difference < 2e-6, name
